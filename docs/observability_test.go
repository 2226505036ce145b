package docs_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
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
	Title  string
	Panels []struct {
		ID         int
		Title      string
		Type       string
		Datasource struct{ Type, UID string }
		GridPos    struct{ X, Y, W, H int }
		Targets    []struct{ RefID, Expr string }
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

// alerts are what is checked of alerts.yml.
type alerts struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("grafana-dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

func readAlerts(t *testing.T) (a alerts) {
	t.Helper()
	text, err := os.ReadFile("alerts.yml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &a))
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

// checkQuery demands that all metrics and labels of a query are exposed, and
// returns the metrics.
func checkQuery(t *testing.T, metrics map[string]map[string]bool, where, expr string) (named []string) {
	t.Helper()
	for _, part := range either.Split(expr, -1) {
		named = append(named, checkPart(t, metrics, where, part)...)
	}
	assert.NotEmpty(t, named, "%s: asks for no metric: %s", where, expr)
	return named
}

// checkPart is checkQuery of a query without alternatives: what it groups by,
// all its metrics have.
func checkPart(t *testing.T, metrics map[string]map[string]bool, where, expr string) (named []string) {
	t.Helper()
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		labels, ok := metrics[s[1]]
		if !assert.True(t, ok, "%s: %s is not exposed", where, s[1]) {
			continue
		}
		named = append(named, s[1])
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			assert.True(t, labels[m[1]], "%s: %s has no label %s", where, s[1], m[1])
			for value := range strings.SplitSeq(m[2], "|") {
				if m[1] == "outcome" || m[1] == "source" {
					assert.True(t, labels[m[1]+"="+value], "%s: %s is never %q", where, m[1], value)
				}
			}
		}
		for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
			for label := range strings.SplitSeq(by[1], ", ") {
				assert.True(t, labels[label], "%s: %s has no label %s", where, s[1], label)
			}
		}
	}
	return named
}

func TestDashboardAsksForWhatIsExposed(t *testing.T) {
	metrics := exposed(t)
	d := readDashboard(t)
	assert.NotEmpty(t, d.Title)
	variables, shown := map[string]string{}, map[string]bool{}
	for _, v := range d.Templating.List {
		variables[v.Name] = v.Type
		if v.Type == "query" {
			checkQuery(t, metrics, "variable "+v.Name, v.Definition)
		}
	}
	assert.Equal(t, map[string]string{"datasource": "datasource", "job": "query", "policy": "query", "store": "query"}, variables)
	ids := map[int]bool{}
	for i, p := range d.Panels {
		assert.False(t, ids[p.ID], "%s: its ID is another's", p.Title)
		ids[p.ID] = true
		assert.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for _, q := range d.Panels[:i] {
			apart := p.GridPos.X >= q.GridPos.X+q.GridPos.W || q.GridPos.X >= p.GridPos.X+p.GridPos.W ||
				p.GridPos.Y >= q.GridPos.Y+q.GridPos.H || q.GridPos.Y >= p.GridPos.Y+p.GridPos.H
			assert.True(t, apart, "%s covers %s", p.Title, q.Title)
		}
		assert.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			for _, name := range checkQuery(t, metrics, p.Title, target.Expr) {
				shown[name] = true
			}
		}
	}
	for name := range metrics {
		_, histogram := metrics[name+"_bucket"]
		part := strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count") || strings.HasSuffix(name, "_bucket")
		assert.True(t, part || shown[name] || histogram && shown[name+"_bucket"], "no panel shows %s", name)
	}
}

// Two jobs may have policies and stores of one name: no query adds or compares
// what belongs to both.
func TestQueriesKeepJobsApart(t *testing.T) {
	grouped := func(where, expr string) {
		for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
			assert.Contains(t, strings.Split(by[1], ", "), "job", "%s: groups by no job: %s", where, expr)
		}
	}
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			grouped(p.Title, target.Expr)
			for _, s := range selector.FindAllStringSubmatch(target.Expr, -1) {
				assert.Contains(t, s[2], `job=~"$job"`, "%s: takes in jobs that are not selected", p.Title)
			}
		}
	}
	for _, g := range readAlerts(t).Groups {
		for _, r := range g.Rules {
			assert.Regexp(t, grouping, r.Expr, r.Alert)
			grouped(r.Alert, r.Expr)
			assert.Contains(t, r.Annotations["summary"], "{{ $labels.job }}", "%s: the summary names the job", r.Alert)
		}
	}
}

func TestAlertsAskForWhatIsExposed(t *testing.T) {
	metrics := exposed(t)
	for _, g := range readAlerts(t).Groups {
		for _, r := range g.Rules {
			checkQuery(t, metrics, r.Alert, r.Expr)
			assert.NotEmpty(t, r.Labels["severity"], r.Alert)
			assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
			assert.NotEmpty(t, r.Annotations["description"], "%s says what it means", r.Alert)
		}
	}
}

func TestPageNamesEachMetric(t *testing.T) {
	page, err := os.ReadFile("operations.md")
	require.NoError(t, err)
	metrics := exposed(t)
	for name := range metrics {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		assert.Contains(t, string(page), "`"+base+"`")
	}
	for _, name := range regexp.MustCompile("`(ratelimit_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		assert.True(t, metrics[name[1]] != nil || name[1] == "ratelimit_policy", "the page names %s, which is not exposed", name[1])
	}
}

// knowsNativeHistograms reports whether promtool's unit tests can have native
// histograms: from 2.48 on.
func knowsNativeHistograms(t *testing.T, promtool string) bool {
	t.Helper()
	out, err := exec.Command(promtool, "--version").CombinedOutput()
	require.NoError(t, err)
	var major, minor int
	version := regexp.MustCompile(`version (\d+)\.(\d+)`).FindSubmatch(out)
	if version == nil { // built by its user, of late
		return true
	}
	major, _ = strconv.Atoi(string(version[1]))
	minor, _ = strconv.Atoi(string(version[2]))
	known := major > 2 || major == 2 && minor >= 48
	if !known {
		t.Logf("promtool %d.%d can't try native histograms", major, minor)
	}
	return known
}

// What is asked of durations is asked of native histograms too, whose series
// have no _bucket.
func TestDurationsAreAskedForInBothForms(t *testing.T) {
	const classic, native = "ratelimit_decision_duration_seconds_bucket", "ratelimit_decision_duration_seconds"
	asked := 0
	check := func(where, expr string) {
		if !strings.Contains(expr, classic) {
			return
		}
		asked++
		parts := either.Split(expr, -1)
		if !assert.Len(t, parts, 2, where) {
			return
		}
		same := strings.ReplaceAll(strings.ReplaceAll(parts[0], classic, native), "by (le, ", "by (")
		assert.Equal(t, strings.Fields(same), strings.Fields(parts[1]), where)
	}
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
		}
	}
	for _, g := range readAlerts(t).Groups {
		for _, r := range g.Rules {
			check(r.Alert, r.Expr)
		}
	}
	assert.Positive(t, asked, "durations are asked for")
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
