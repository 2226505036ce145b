package promlimit_test

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// service is a real server with a limited root and /metrics.
type service struct {
	*httptest.Server

	registry *prometheus.Registry
}

func serve(t *testing.T, store core.Store, policy core.Policy, options ...promlimit.Option) *service {
	t.Helper()
	metrics := promlimit.New(options...)
	limiter, err := core.NewLimiter(store, policy, core.WithObserver(metrics.Observe))
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics))
	mux := http.NewServeMux()
	mux.Handle("/", httplimit.New(limiter, httplimit.ByHeader("X-User"))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	s := &service{httptest.NewServer(mux), registry}
	t.Cleanup(s.Close)
	return s
}

// get requests path and returns the status and the body.
func (s *service) get(t *testing.T, path string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.URL+path, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := s.Client().Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(body)
}

// sample scrapes the service and returns the value of a series, or NaN if it is
// missing.
func (s *service) sample(t *testing.T, series string) float64 {
	t.Helper()
	_, text := s.get(t, "/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			f, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err)
			return f
		}
	}
	return math.NaN()
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
			s := serve(t, core.NewMemoryStore(), p.policy)
			for _, want := range []int{200, 200, p.status} {
				status, _ := s.get(t, "/", "X-User", "ann")
				assert.Equal(t, want, status)
			}
			_, _ = s.get(t, "/")

			decisions := func(outcome string) float64 {
				return s.sample(t, `ratelimit_decisions_total{limit="few",outcome="`+outcome+`",policy="`+p.policy.Name+`",source="store"}`)
			}
			assert.InDelta(t, 2, decisions("allowed"), 0)
			assert.InDelta(t, 1, decisions(p.denied), 0, "a request without a key has no decision")
			assert.InDelta(t, 1, s.sample(t, `ratelimit_tokens_total{outcome="`+p.denied+`",policy="`+p.policy.Name+`"}`), 0)
			assert.InDelta(t, 3, s.sample(t, `ratelimit_decision_duration_seconds_count{policy="`+p.policy.Name+`",source="store"}`), 0)
			_, text := s.get(t, "/metrics")
			assert.NotContains(t, text, "ann", "keys of clients are in no series")
		})
	}
}

func TestScrapeCountsCallsToRedis(t *testing.T) {
	store := redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(10*time.Second), redisstore.WithLease(10),
		core.WithClock(func() time.Time { return time.Unix(1_800_000_000, 0) })) // stands still, so the key stays busy on a slow machine
	s := serve(t, store, core.Policy{Name: "api", Limits: []core.Limit{{Name: "l", Capacity: 100, RefillRate: 1, RefillInterval: 24 * time.Hour}}},
		promlimit.WithRedisStore("main", store))
	for range 120 {
		_, _ = s.get(t, "/", "X-User", "ann")
	}
	decisions := func(outcome, source string) float64 {
		return s.sample(t, `ratelimit_decisions_total{limit="l",outcome="`+outcome+`",policy="api",source="`+source+`"}`)
	}
	assert.InDelta(t, decisions("allowed", "lease"), s.sample(t, `ratelimit_leased_decisions_total{store="main"}`), 0)
	assert.InDelta(t, decisions("denied", "deny-cache"), s.sample(t, `ratelimit_deny_cache_hits_total{store="main"}`), 0)
	assert.InDelta(t, 100, decisions("allowed", "lease")+decisions("allowed", "store"), 0)
	calls := s.sample(t, `ratelimit_batch_size_count{store="main"}`)
	assert.Positive(t, calls)
	assert.InDelta(t, calls, s.sample(t, `ratelimit_batch_size_bucket{store="main",le="1"}`), 0, "requests one after another are in separate calls")
	assert.InDelta(t, calls, s.sample(t, `ratelimit_batch_size_bucket{store="main",le="512"}`), 0)
	assert.InDelta(t, float64(store.Stats().Decisions), s.sample(t, `ratelimit_batch_size_sum{store="main"}`), 0)
	assert.InDelta(t, 0, s.sample(t, `ratelimit_breaker_state{store="main"}`), 0)
}

// The test kills the store's server and starts it again.
func TestScrapeShowsAnOutage(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, redisstore.WithTimeout(20*time.Second), redisstore.WithBreaker(1, time.Millisecond))
	s := serve(t, store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1_000_000)}}, promlimit.WithRedisStore("main", store))
	state := func() float64 { return s.sample(t, `ratelimit_breaker_state{store="main"}`) }
	opened := func() float64 { return s.sample(t, `ratelimit_breaker_opened_total{store="main"}`) }
	away := func() float64 { return s.sample(t, `ratelimit_fallback_seconds_total{store="main"}`) }
	status, _ := s.get(t, "/", "X-User", "ann")
	require.Equal(t, http.StatusOK, status)
	assert.InDelta(t, 0, state(), 0)
	assert.InDelta(t, 0, opened(), 0)
	assert.InDelta(t, 0, away(), 0)

	server.Kill()
	status, _ = s.get(t, "/", "X-User", "ann")
	require.Equal(t, http.StatusOK, status, "the process decides by itself")
	assert.Positive(t, state())
	assert.InDelta(t, 1, opened(), 0)
	assert.Positive(t, away())
	assert.InDelta(t, 1, s.sample(t, `ratelimit_decisions_total{limit="api",outcome="allowed",policy="api",source="fallback"}`), 0)

	server.Restart(t)
	require.Eventually(t, func() bool {
		_, _ = s.get(t, "/", "X-User", "ann")
		return state() == 0
	}, 20*time.Second, time.Millisecond, "the breaker closes when the server is back")
	assert.InDelta(t, 1, opened(), 0, "an outage is counted once")
	settled := away()
	assert.InDelta(t, settled, away(), 0, "the time of the outage no longer grows")
}

func TestMetricNamesPassTheLinters(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client)
	s := serve(t, core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(2)}},
		promlimit.WithRedisStore("main", store), promlimit.WithRedisStore("other", store))
	_, _ = s.get(t, "/", "X-User", "ann")
	problems, err := testutil.GatherAndLint(s.registry)
	require.NoError(t, err)
	assert.Empty(t, problems)

	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not on the PATH: its check is skipped")
		return
	}
	_, text := s.get(t, "/metrics", "Accept", "text/plain")
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
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
				c.Observe(context.Background(), core.Observation{Policy: "p" + strconv.Itoa(i), Limit: "l", Outcome: outcome, Source: source})
			}
		}
	}
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	lines, observed := 0, 0.0
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		lines++
		if strings.HasPrefix(line, "ratelimit_decision_duration_seconds_count") {
			n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
			require.NoError(t, err)
			observed += n
		}
	}
	assert.LessOrEqual(t, lines, 3*most+20+4+5*18, "as WithMaxSeries says")
	assert.InDelta(t, 500*5*4, observed, 0, "all durations are counted")
}

func TestSeriesBeyondTheBoundAreCountedAsOther(t *testing.T) {
	c := promlimit.New(promlimit.WithMaxSeries(10))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 100 {
				c.Observe(context.Background(), core.Observation{Policy: "p" + strconv.Itoa(i), Limit: "l", Cost: 2, Capacity: 5})
			}
		})
	}
	all.Wait()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	n, err := testutil.GatherAndCount(registry, "ratelimit_decisions_total")
	require.NoError(t, err)
	assert.Equal(t, 11, n)
	sums := map[string]float64{}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			sums[f.GetName()] += m.GetCounter().GetValue()
		}
	}
	assert.InDelta(t, 400, sums["ratelimit_decisions_total"], 0, "all are counted")
	assert.InDelta(t, 800, sums["ratelimit_tokens_total"], 0)
}

func TestRegistrationFailsWithAllMistakes(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client)
	c := promlimit.New(nil, promlimit.WithRedisStore("a", nil), promlimit.WithRedisStore("main", store), promlimit.WithRedisStore("main", store),
		promlimit.WithRedisStore("\xff", store), promlimit.WithBuckets(), promlimit.WithBuckets(2, 1), promlimit.WithBuckets(math.NaN()), promlimit.WithMaxSeries(0))
	err := prometheus.NewRegistry().Register(c)
	require.Error(t, err)
	for _, want := range []string{
		`WithRedisStore: "a" has no store`, `WithRedisStore: "main" must be a name that no other store has`, `WithRedisStore: "\xff" must be a name in UTF-8`,
		"WithBuckets: [] must be at least one bound", "WithBuckets: [2 1] must be in increasing order", "WithBuckets: [NaN]", "WithMaxSeries: 0 must be at least 1",
	} {
		assert.ErrorContains(t, err, "promlimit."+want)
	}
	c.Observe(context.Background(), core.Observation{Policy: "api"})

	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(promlimit.New()))
	err = registry.Register(promlimit.New())
	var twice prometheus.AlreadyRegisteredError
	assert.ErrorAs(t, err, &twice, "a registry accepts only one Collector")
}
