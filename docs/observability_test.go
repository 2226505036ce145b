package docs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// dashboard is what is checked of grafana-dashboard.json.
type dashboard struct {
	Panels []struct {
		Title      string
		Datasource struct{ UID string }
		Targets    []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

// alerts are what is checked of alerts.yml.
type alerts struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	require.NoError(t, json.Unmarshal(read(t, "grafana-dashboard.json"), &d))
	require.NotEmpty(t, d.Panels)
	return d
}

func readAlerts(t *testing.T) (a alerts) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal(read(t, "alerts.yml"), &a))
	require.NotEmpty(t, a.Groups)
	return a
}

// exposed are the labels and, by outcome and source, the values of each metric
// that a Collector exposes.
func exposed(t *testing.T) map[string]map[string]bool {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, core.WithLogger(slog.New(slog.DiscardHandler)))
	following, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		store.FollowExceptions(following, core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}})))
	})
	defer func() { stop(); running.Wait() }()
	require.Eventually(t, func() bool { return len(store.Stats().Exceptions) > 0 }, 20*time.Second, time.Millisecond)
	c := promlimit.New(promlimit.WithRedisStore("main", store))
	for outcome := core.OutcomeAllowed; outcome <= core.OutcomeError; outcome++ {
		for source := core.FromStore; source <= core.FromFailOpen; source++ {
			c.Observe(context.Background(), core.Observation{Policy: "api", Limit: "l", Outcome: outcome, Source: source, Cost: 1})
		}
	}
	c.Observe(context.Background(), core.Observation{Policy: "api", Outcome: core.OutcomeUnsettled})
	c.Observe(context.Background(), core.Observation{Policy: "api", Outcome: core.OutcomeSlots, Slots: -1})
	c.ObservePolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60).WithName("l")}}, nil)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	metrics := map[string]map[string]bool{}
	for _, f := range families {
		known := map[string]bool{"instance": true, "job": true} // which Prometheus adds
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				known[l.GetName()], known[l.GetName()+"="+l.GetValue()] = true, true
			}
		}
		metrics[f.GetName()] = known
		if f.GetMetric()[0].GetHistogram() != nil {
			withBound := map[string]bool{"le": true}
			for name := range known {
				withBound[name] = true
			}
			metrics[f.GetName()+"_bucket"], metrics[f.GetName()+"_sum"], metrics[f.GetName()+"_count"] = withBound, known, known
		}
	}
	return metrics
}

var (
	selector = regexp.MustCompile(`\b(ratelimit_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!=|!~|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
	either   = regexp.MustCompile(`\s+or\s+`)
)

// checkQuery demands that all metrics and labels of a query are exposed. What
// one of its alternatives groups by, all metrics of it have.
func checkQuery(t *testing.T, metrics map[string]map[string]bool, where, expr string) {
	t.Helper()
	assert.Regexp(t, selector, expr, "%s: asks for no metric", where)
	for _, part := range either.Split(expr, -1) {
		for _, s := range selector.FindAllStringSubmatch(part, -1) {
			labels, ok := metrics[s[1]]
			assert.True(t, ok, "%s: %s is not exposed", where, s[1])
			for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
				assert.True(t, labels[m[1]], "%s: %s has no label %s", where, s[1], m[1])
				for value := range strings.SplitSeq(m[2], "|") {
					if m[1] == "outcome" || m[1] == "source" {
						assert.True(t, labels[m[1]+"="+value], "%s: %s is never %q", where, m[1], value)
					}
				}
			}
			for _, by := range grouping.FindAllStringSubmatch(part, -1) {
				for label := range strings.SplitSeq(by[1], ", ") {
					assert.True(t, labels[label], "%s: %s has no label %s", where, s[1], label)
				}
			}
		}
	}
}

// queries calls do with each query of the dashboard and of the alerts, and what
// asks it.
func queries(t *testing.T, do func(where, expr string)) {
	t.Helper()
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			do(p.Title, target.Expr)
		}
	}
	for _, g := range readAlerts(t).Groups {
		for _, r := range g.Rules {
			do(r.Alert, r.Expr)
		}
	}
}

func TestQueriesAskForWhatIsExposed(t *testing.T) {
	metrics := exposed(t)
	queries(t, func(where, expr string) { checkQuery(t, metrics, where, expr) })
	for _, v := range readDashboard(t).Templating.List {
		if v.Type == "query" {
			checkQuery(t, metrics, "variable "+v.Name, v.Definition)
		}
	}
}

func TestDashboardShowsEachMetric(t *testing.T) {
	metrics, shown := exposed(t), map[string]bool{}
	for _, p := range readDashboard(t).Panels {
		assert.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		for _, target := range p.Targets {
			for _, s := range selector.FindAllStringSubmatch(target.Expr, -1) {
				shown[base(s[1])] = true
			}
		}
	}
	for name := range metrics {
		assert.True(t, shown[base(name)], "no panel shows %s", name)
	}
}

// Two jobs may have policies and stores of one name: no query adds or compares
// what belongs to both.
func TestQueriesKeepJobsApart(t *testing.T) {
	queries(t, func(where, expr string) {
		for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
			assert.Contains(t, strings.Split(by[1], ", "), "job", "%s: groups by no job: %s", where, expr)
		}
	})
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			for _, s := range selector.FindAllStringSubmatch(target.Expr, -1) {
				assert.Contains(t, s[2], `job=~"$job"`, "%s: takes in jobs that are not selected", p.Title)
			}
		}
	}
}

func TestAlertsSayWhatTheyMean(t *testing.T) {
	for _, g := range readAlerts(t).Groups {
		for _, r := range g.Rules {
			assert.Regexp(t, grouping, r.Expr, r.Alert)
			assert.NotEmpty(t, r.Labels["severity"], r.Alert)
			assert.Contains(t, r.Annotations["summary"], "{{ $labels.job }}", "%s: the summary names the job", r.Alert)
			assert.NotEmpty(t, r.Annotations["description"], "%s says what it means", r.Alert)
		}
	}
}

func TestPageNamesEachMetric(t *testing.T) {
	page, metrics := string(read(t, "operations.md")), exposed(t)
	for name := range metrics {
		assert.Contains(t, page, "`"+base(name)+"`")
	}
	for _, name := range regexp.MustCompile("`(ratelimit_[a-z_]+)`").FindAllStringSubmatch(page, -1) {
		assert.Contains(t, metrics, name[1], "the page names what is not exposed")
	}
}

// base is the name of a metric without that of a part of a histogram.
func base(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
}

// What is asked of durations is asked of native histograms too, whose series
// have no _bucket.
func TestDurationsAreAskedForInBothForms(t *testing.T) {
	const classic, native = "ratelimit_decision_duration_seconds_bucket", "ratelimit_decision_duration_seconds"
	asked := 0
	queries(t, func(where, expr string) {
		if !strings.Contains(expr, classic) {
			return
		}
		asked++
		parts := either.Split(expr, -1)
		require.Len(t, parts, 2, where)
		same := strings.ReplaceAll(strings.ReplaceAll(parts[0], classic, native), "by (le, ", "by (")
		assert.Equal(t, strings.Fields(same), strings.Fields(parts[1]), where)
	})
	assert.Positive(t, asked, "durations are asked for")
}

// knowsNativeHistograms reports whether promtool's unit tests can have native
// histograms: from 2.48 on.
func knowsNativeHistograms(t *testing.T, promtool string) bool {
	t.Helper()
	out, err := exec.Command(promtool, "--version").CombinedOutput()
	require.NoError(t, err)
	var major, minor int
	_, version, _ := strings.Cut(string(out), "version ")
	_, err = fmt.Sscanf(version, "%d.%d", &major, &minor)
	return err != nil || major > 2 || major == 2 && minor >= 48 // without a number its user has built it, of late
}

// TestPromtool has promtool, where it is on the PATH, check the alerts, try
// when they fire, and check the dashboard's queries.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not on the PATH")
	}
	run := func(args ...string) {
		out, err := exec.Command(promtool, args...).CombinedOutput()
		assert.NoError(t, err, "promtool %s: %s", args, out)
	}
	run("check", "rules", "alerts.yml")
	run("test", "rules", "testdata/alerts_test.yml")
	if knowsNativeHistograms(t, promtool) {
		run("test", "rules", "testdata/alerts_native_test.yml")
	}

	type rule struct{ Record, Expr string }
	var rules []rule
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			rules = append(rules, rule{"panel:" + string(rune('a'+len(rules))), strings.ReplaceAll(target.Expr, "$__rate_interval", "1m")})
		}
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	run("check", "rules", path)
}
