package promlimit_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// text returns what a scrape of a Collector answers.
func text(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}

// scrape returns the values of all series whose names begin with prefix.
func scrape(t *testing.T, c prometheus.Collector, prefix string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for line := range strings.Lines(text(t, c)) {
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64)
		require.NoError(t, err, line)
		values[line[:i]] = value
	}
	return values
}

func sum(values map[string]float64) (all float64) {
	for _, value := range values {
		all += value
	}
	return all
}

func TestScrapeCountsRequests(t *testing.T) {
	for _, p := range []struct {
		policy core.Policy
		denied string
		status int
	}{
		{core.Policy{Name: "api"}, "denied", http.StatusTooManyRequests},
		{core.Policy{Name: "trial", Shadow: true}, "shadow-denied", http.StatusOK},
	} {
		t.Run(p.policy.Name, func(t *testing.T) {
			p.policy.Limits = []core.Limit{core.PerDay(2).WithName("few"), core.PerDay(100).WithName("many")}
			metrics := promlimit.New()
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), p.policy, core.WithObserver(metrics.Observe)))
			handler := httplimit.New(limiter, httplimit.ByHeader("X-User"))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			for _, want := range []int{200, 200, p.status} {
				w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header.Set("X-User", "ann")
				handler.ServeHTTP(w, r)
				assert.Equal(t, want, w.Code)
			}
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)) // without a key there is no decision

			policy := `policy="` + p.policy.Name + `"`
			decisions := func(outcome string) string {
				return `ratelimit_decisions_total{limit="few",outcome="` + outcome + `",` + policy + `,source="store"}`
			}
			tokens := func(outcome string) string {
				return `ratelimit_tokens_total{outcome="` + outcome + `",` + policy + `}`
			}
			assert.Equal(t, map[string]float64{decisions("allowed"): 2, decisions(p.denied): 1}, scrape(t, metrics, "ratelimit_decisions"))
			assert.Equal(t, map[string]float64{tokens("allowed"): 2, tokens(p.denied): 1}, scrape(t, metrics, "ratelimit_tokens"))
			assert.Equal(t, map[string]float64{`ratelimit_decision_duration_seconds_count{` + policy + `,source="store"}`: 3},
				scrape(t, metrics, "ratelimit_decision_duration_seconds_count"))
			assert.NotContains(t, text(t, metrics), "ann", "keys of clients are in no series")
		})
	}
}

func TestMetricNamesPassTheLinters(t *testing.T) {
	metrics := promlimit.New(promlimit.WithRedisStore("main", busy{}), promlimit.WithRedisStore("other", busy{}))
	metrics.Observe(t.Context(), core.Observation{Policy: "api"})
	problems, err := testutil.CollectAndLint(metrics)
	require.NoError(t, err)
	assert.Empty(t, problems)

	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not on the PATH: its check is skipped")
		return
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text(t, metrics))
	out, err := check.CombinedOutput()
	assert.NoError(t, err, "promtool check metrics: %s", out)
}

func TestObserveAllocatesNothing(t *testing.T) {
	c := promlimit.New()
	ctx := context.Background()
	o := core.Observation{Policy: "api", Limit: "burst", Cost: 3, Capacity: 5, Outcome: core.OutcomeDenied, Source: core.FromDenyCache, Latency: 321 * time.Microsecond}
	c.Observe(ctx, o)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { c.Observe(ctx, o) }))
}

// The histograms of durations have a series for each bucket. They are bounded
// too.
func TestAllSeriesTogetherAreBounded(t *testing.T) {
	const most = 200
	c := promlimit.New(promlimit.WithMaxSeries(most))
	for i := range 500 {
		for source := core.FromStore; source <= core.FromFailOpen; source++ {
			for outcome := core.OutcomeAllowed; outcome <= core.OutcomeError; outcome++ {
				c.Observe(t.Context(), core.Observation{Policy: "p" + strconv.Itoa(i), Limit: "l", Outcome: outcome, Source: source})
			}
		}
	}
	assert.LessOrEqual(t, len(scrape(t, c, "ratelimit_")), 3*most+20+4+5*18, "as WithMaxSeries says")
	assert.InDelta(t, 500*5*4, sum(scrape(t, c, "ratelimit_decision_duration_seconds_count")), 0, "all durations are counted")
}

func TestSeriesBeyondTheBoundAreCountedAsOther(t *testing.T) {
	c := promlimit.New(promlimit.WithMaxSeries(10))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 100 {
				policy := "p" + strconv.Itoa(i)
				c.Observe(t.Context(), core.Observation{Policy: policy, Limit: "l", Cost: 2, Capacity: 5})
				c.Observe(t.Context(), core.Observation{Policy: policy, Outcome: core.OutcomeUnsettled})
				c.Observe(t.Context(), core.Observation{Policy: policy, Outcome: core.OutcomeSlots, Slots: 3})
			}
		})
	}
	all.Wait()
	for name, want := range map[string]float64{
		"ratelimit_decisions_total": 400, "ratelimit_tokens_total": 800, "ratelimit_unsettled_total": 400, "ratelimit_slots_in_use": 1200,
	} {
		values := scrape(t, c, name)
		assert.Len(t, values, 11, "%s: 10 policies and (other)", name)
		assert.InDelta(t, want, sum(values), 0, "%s: all are counted", name)
	}
}

func TestRegistrationFailsWithAllMistakes(t *testing.T) {
	c := promlimit.New(nil, promlimit.WithRedisStore("a", nil), promlimit.WithRedisStore("main", busy{}), promlimit.WithRedisStore("main", busy{}),
		promlimit.WithRedisStore("\xff", busy{}), promlimit.WithBuckets(), promlimit.WithBuckets(2, 1), promlimit.WithBuckets(math.NaN()), promlimit.WithMaxSeries(0))
	err := prometheus.NewRegistry().Register(c)
	require.Error(t, err)
	for _, want := range []string{
		`WithRedisStore: "a" has no store`, `WithRedisStore: "main" must be a name that no other store has`, `WithRedisStore: "\xff" must be a name in UTF-8`,
		"WithBuckets: [] must be at least one bound", "WithBuckets: [2 1] must be in increasing order", "WithBuckets: [NaN]", "WithMaxSeries: 0 must be at least 1",
	} {
		assert.ErrorContains(t, err, "promlimit."+want)
	}
	c.Observe(t.Context(), core.Observation{Policy: "api"})

	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(promlimit.New()))
	err = registry.Register(promlimit.New())
	var twice prometheus.AlreadyRegisteredError
	assert.ErrorAs(t, err, &twice, "a registry accepts only one Collector")
}

// A client can send the largest Content-Length. The counter adds at most the
// capacity, so it stays exact.
func TestTokensOfARequestAreAtMostTheCapacity(t *testing.T) {
	metrics := promlimit.New()
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "upload", Limits: []core.Limit{core.PerDay(100), core.PerHour(20)},
	}, core.WithObserver(metrics.Observe)))
	handler := httplimit.New(limiter, httplimit.ByIP(), httplimit.WithCost(httplimit.CostByContentLength(1)))(http.NotFoundHandler())
	for _, length := range []int64{math.MaxInt64, 21, math.MaxInt64} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil)
		r.ContentLength = length
		handler.ServeHTTP(w, r)
		assert.Equal(t, http.StatusTooManyRequests, w.Code)
	}
	assert.Equal(t, map[string]float64{`ratelimit_tokens_total{outcome="denied",policy="upload"}`: 60},
		scrape(t, metrics, "ratelimit_tokens"), "three requests, each counted as at most 20")
}

func TestFailedSettlementsHaveAMetricOfTheirOwn(t *testing.T) {
	c := promlimit.New()
	for range 3 {
		c.Observe(t.Context(), core.Observation{Policy: "api", Outcome: core.OutcomeUnsettled, Err: core.ErrUnavailable})
	}
	assert.Equal(t, map[string]float64{`ratelimit_unsettled_total{policy="api"}`: 3}, scrape(t, c, "ratelimit_"),
		"they are no decisions, and have no tokens or durations")
}

func TestSlotsInUseAreExposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := promlimit.New()
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(5)}}, core.WithObserver(metrics.Observe)))
		exposes := func(n float64, rule string) {
			t.Helper()
			synctest.Wait()
			assert.Equal(t, map[string]float64{`ratelimit_slots_in_use{policy="exports"}`: n}, scrape(t, metrics, "ratelimit_slots_in_use"), rule)
		}
		first, err := limiter.AllowN(t.Context(), "ann", 2)
		require.NoError(t, err)
		limittest.Use(t, limiter, "bob", 1)
		exposes(3, "those of all keys")
		require.NoError(t, first.Release(t.Context()))
		exposes(1, "what is released is not in use")
		time.Sleep(2 * time.Minute)
		exposes(0, "nor what MaxHold has freed")
		for _, name := range []string{"ratelimit_decisions_total", "ratelimit_decision_duration_seconds_count"} {
			values := scrape(t, metrics, name)
			assert.Len(t, values, 1, "%s: changes are no decisions", name)
			assert.InDelta(t, 2, sum(values), 0, "%s: two were decided", name)
		}
	})
}
