package docs_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/adminlimit"
	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/fast"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// everyMistake makes every mistake of errors.md, and returns what the library
// says: in errors, in panics and in the log.
func everyMistake(t *testing.T) string {
	t.Helper()
	var said strings.Builder
	say := func(err error) {
		require.Error(t, err)
		said.WriteString(err.Error() + "\n")
	}
	for _, mistakes := range []func(*testing.T, func(error)){
		mistakesInGo, mistakesInPlans, mistakesInText, mistakesInFiles, mistakesInStores, mistakesInMiddleware, mistakesInClients, errorsOfDecisions,
	} {
		mistakes(t, say)
	}
	said.WriteString(logtest.Capture(func() { logsOfAddresses(t) }))
	said.WriteString(logtest.Capture(func() { logsOfMiddleware(t) }))
	said.WriteString(logsOfStores(t))
	return said.String()
}

func mistakesInClients(t *testing.T, say func(error)) {
	t.Helper()
	func() {
		defer func() { say(recover().(error)) }()
		clientlimit.New(nil, clientlimit.WithLimiter(nil, clientlimit.ByHost()), clientlimit.WithAttempts(0), clientlimit.WithMaxWait(0))
	}()
	say(&clientlimit.Error{Key: "host:api.example.com", Err: clientlimit.ErrQueueFull})
}

func mistakesInPlans(t *testing.T, say func(error)) {
	t.Helper()
	minute := core.PerMinute(60).WithName("minute")
	plans := core.Policy{
		Name: "api", Limits: []core.Limit{minute}, Plans: map[string][]core.Limit{"": {minute}, "pro": {core.PerDay(60)}},
		Overrides: map[string][]core.Limit{"user:ann": {core.PerMinute(600).WithName("minuet")}},
	}
	_, err := core.NewLimiter(core.NewMemoryStore(), plans)
	say(err)
	plans.Plans, plans.Overrides = map[string][]core.Limit{"pro": {minute}}, nil
	_, err = core.Must(core.NewLimiter(core.NewMemoryStore(), plans)).WithPlan("gold")
	say(err)
}

func mistakesInGo(t *testing.T, say func(error)) {
	t.Helper()
	half := core.PerMinute(60)
	half.RefillRate = 0.3
	_, err := core.NewLimiter(nil, core.Policy{
		Name: "naïve", OnFailure: 9, LocalShare: 1.5, Headers: core.HeadersDraft8 | core.HeadersDraft6,
		Limits: []core.Limit{
			{Capacity: 0, RefillRate: 0, RefillInterval: 30, Mode: 7},
			{Capacity: 1e12, RefillRate: 1e-3, RefillInterval: time.Hour},
			core.PerMinute(60).WithName("daily"), core.PerHour(60).WithName("daily"),
			core.PerMinute(60).WithUnit("größe"),
			{Capacity: 1, RefillRate: 1, RefillInterval: 101 * 365 * 24 * time.Hour},
			core.PerMinute(60).In(time.UTC), core.PerMonth(5).Anchored(time.Time{}),
			core.InFlight(5000), core.InFlight(5).WithMaxHold(0), core.PerMinute(60).WithMode(core.Concurrent),
		},
		Overrides: map[string][]core.Limit{"": {core.PerMinute(60)}, "user:ann": {}},
	})
	say(err)
	_, err = core.NewLimiter(core.NewMemoryStore(), core.Policy{})
	say(err)
	_, err = core.NewLimiter(&core.MemoryStore{}, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}})
	say(err)
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	say(limiter.SetPolicy(core.Policy{Name: "api-v2", Limits: []core.Limit{core.PerMinute(60)}}))
	_, err = limiter.Allow(context.Background(), "k")
	require.NoError(t, err)
	say(limiter.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60).WithUnit("tokens")}}))
	_, err = limiter.WithLimits()
	say(err)
	_, err = limiter.WithLimits(make([]core.Limit, 65)...)
	say(err)
	half.Mode, half.Capacity, half.RefillRate = core.Stepped, 999_999_999_999_999, 1/3.0
	_, err = limiter.WithLimits(half)
	say(err)
	_, err = core.PerMonth(5).In(time.FixedZone("here", 60)).MarshalText()
	say(err)
	wrong := core.PerMonth(5)
	wrong.Mode = core.Continuous
	_, err = limiter.WithLimits(wrong)
	say(err)
	_, err = core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(5).WithMaxHold(30)}})
	say(err)
	_, err = core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "login", Limits: []core.Limit{core.PerMinute(5).WithPenalty(0)}})
	say(err)
}

func mistakesInText(t *testing.T, say func(error)) {
	t.Helper()
	for _, text := range []string{
		"10 per minute", "5 Tokens/min", "0 at once", "5 at once hold 31 days", "60/min hold 1m", "5/30ns",
	} {
		_, err := core.ParseLimit(text)
		say(err)
	}
}

func mistakesInFiles(t *testing.T, say func(error)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policies.yaml")
	require.NoError(t, os.WriteFile(path, []byte("- {name: api, limits: [60/min]}\n"), 0o600))
	login := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "login", Limits: []core.Limit{core.PerMinute(5)}}))
	say(policyfile.Reload(path, nil, login))
	_, err := policyfile.LoadFile(filepath.Join("no", "policies.yaml"))
	say(err)
	for _, text := range []string{
		"", "policies: [", "a\xff", "policies: *other\n", strings.Repeat("#", 257<<10), strings.Repeat("- \n", 200),
		"policies:\n  - name: api\n    limits: [1/s]\n    onFailure: open\n", "policies:\n  - name: api\n    limits:\n      - tokens: 100/min\n",
		"policies:\n  - name: api\n    limits:\n      - 1/s\n    shadow: maybe\n", "policies:\n  - name: api\n    name: web\n    limits: [1/s]\n",
		"policies:\n  - {name: api, limits: [1/s]}\n  - {name: api, limits: [1/s]}\n", "policies: api\n",
	} {
		_, err := policyfile.Load(strings.NewReader(text))
		say(err)
	}
}

// wrapped is a Store that hides what another can do.
type wrapped struct {
	core.Store
	do func(r store.Request) (store.Answer, error)
}

func (w wrapped) Do(_ context.Context, r store.Request) (store.Answer, error) { return w.do(r) }

func mistakesInStores(t *testing.T, say func(error)) {
	t.Helper()
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}
	for _, store := range []core.Store{
		nil, redisstore.New(nil), redisstore.New(redis.NewClient(&redis.Options{Addr: "redis://localhost:6379"})),
		redisstore.New(redis.NewClient(&redis.Options{}), redisstore.WithTimeout(0), redisstore.WithBreaker(0, 0), redisstore.WithDenyCache(-1),
			redisstore.WithLease(-1), redisstore.WithPrefix("shop{"), core.WithClock(nil)),
		core.NewMemoryStore(core.WithMaxKeys(0), core.WithClock(nil), redisstore.WithTimeout(time.Second)),
	} {
		_, err := core.NewLimiter(store, policy)
		say(err)
	}
	_, err := redisstore.Open("localhost:6379")
	say(err)
	say(prometheus.NewRegistry().Register(promlimit.New(promlimit.WithMaxSeries(0), promlimit.WithBuckets(1, 1))))
}

func mistakesInMiddleware(t *testing.T, say func(error)) {
	t.Helper()
	refused := func(install func()) {
		defer func() {
			err, _ := recover().(error)
			say(err)
		}()
		install()
	}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	refused(func() { httplimit.New(nil, nil) })
	for _, key := range []httplimit.KeyFunc{
		httplimit.ByHeader(""), httplimit.ByCookie(""), httplimit.ByQuery(""), httplimit.ByParam(""), httplimit.Global(""),
		httplimit.ByContextValue([]string{"user"}), httplimit.ByContextValue(nil), httplimit.ByRouteOf(nil), httplimit.Join(), httplimit.FirstOf(httplimit.ByIP(), nil),
		httplimit.ByIP(core.TrustProxies("10.0.0.0/33"), core.TrustHeader(""), core.IPv6Prefix(0)),
	} {
		refused(func() { httplimit.New(limiter, key) })
	}
	token := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60).WithUnit("token")}}))
	refused(func() { httplimit.New(token, httplimit.ByIP()) })
	llm := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "llm", Limits: []core.Limit{core.PerMinute(9000).WithUnit("tokens")}}))
	refused(func() {
		httplimit.New(llm, httplimit.ByIP(), httplimit.WithCost(func(*http.Request) (int64, error) { return 9, nil }))
	})
	settle := httplimit.WithSettle(func(*http.Request, int) core.Units { return nil })
	refused(func() { httplimit.New(token, httplimit.ByIP(), settle) })
	refund := httplimit.WithRefund(func(*http.Request, int) bool { return false })
	refused(func() { httplimit.New(limiter, httplimit.ByIP(), settle, refund) })
	refused(func() {
		httplimit.New(limiter, httplimit.ByIP(), httplimit.WithCost(httplimit.CostByContentLengthOr(0, 0)))
	})
	refused(func() { httplimit.NewTogether(nil) })
	plans := httplimit.WithPlan(func(*http.Request) (string, error) { return "", nil })
	refused(func() {
		httplimit.NewTogether([]httplimit.Rule{{Limiter: limiter, Key: httplimit.ByIP()}}, plans)
	})
	refused(func() { httplimit.PerIP(core.Limit{}) })
	_, err := adminlimit.New(nil, adminlimit.Config{Limiters: []*core.Limiter{limiter}, Hosts: []string{"localhost:80"}})
	say(err)
	held := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "llm", Limits: []core.Limit{
		core.PerMinute(60), core.PerMinute(9000).WithUnit("tokens").WithMaxHold(time.Minute),
	}}))
	refused(func() {
		httplimit.New(held, httplimit.ByIP(), httplimit.WithUnits(func(*http.Request) (core.Units, error) { return core.Units{"tokens": 1000}, nil }))
	})
}

func errorsOfDecisions(t *testing.T, say func(error)) {
	t.Helper()
	ctx, after := context.WithTimeout(t.Context(), time.Minute)
	defer after()
	first := func(_ any, err error) { say(err) }
	memory := core.NewMemoryStore()
	limiter := core.Must(core.NewLimiter(memory, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(60)}}))
	first(limiter.Allow(ctx, ""))
	first(limiter.AllowN(ctx, "ann", -1))
	say(limiter.Refund(ctx, "ann", -1))
	first(limiter.AllowUnits(ctx, "ann", core.Units{"tokens": 5}))
	say(limiter.WaitN(ctx, "ann", 61))
	_, err := limiter.AllowN(ctx, "ann", 60)
	require.NoError(t, err)
	text := limiter.WaitN(ctx, "ann", 30).Error()
	cut, _, _ := strings.Cut(text, ": the wait is") // the rest is measured
	say(errors.New(cut))
	first(core.AllowTogether(ctx))
	first(core.AllowTogether(ctx, core.Charge{Key: "ann"}))
	joint, err := core.AllowTogether(ctx, core.Charge{Limiter: limiter, Key: "joint"})
	require.NoError(t, err)
	require.NoError(t, joint.Undo(ctx))
	say(joint.Settle(ctx, nil))
	none := core.Result{}
	say(none.Undo(ctx))
	key := httplimit.ByHeader("X-Api-Key")
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	first(key(r))
	r.Header["X-Api-Key"] = []string{"k-1", "k-2"}
	first(key(r))
	r.RemoteAddr = "203.0.113.9"
	first(httplimit.ByIP()(r))
	r.RemoteAddr, r.Header = "203.0.113.9:80", http.Header{"X-Real-Ip": {"203.0.113.9:80"}}
	first(httplimit.ByIP()(r))
	_, err = httplimit.CostByContentLength(1)(&http.Request{ContentLength: -1})
	say(err)
	say(store.ErrApart)
	errorsOfSlots(t, say)
	errorsOfStores(t, say)
}

func errorsOfSlots(t *testing.T, say func(error)) {
	t.Helper()
	ctx, now := t.Context(), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(func() time.Time { return now })), core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(1)}}))
	late, err := limiter.Allow(ctx, "ann")
	require.NoError(t, err)
	now = now.Add(2 * time.Minute)
	other, err := limiter.Allow(ctx, "ann")
	require.NoError(t, err)
	require.True(t, other.Allowed)
	say(late.Hold(ctx))
	say(limiter.Wait(ctx, "ann"))
}

func errorsOfStores(t *testing.T, say func(error)) {
	t.Helper()
	memory := core.NewMemoryStore()
	closed := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(60)}, OnFailure: core.FailClosed}
	decide := func(store core.Store) {
		_, err := core.Must(core.NewLimiter(store, closed)).Allow(t.Context(), "ann")
		say(err)
	}
	decide(wrapped{memory, func(r store.Request) (store.Answer, error) {
		a, _, _, err := r.Decide(nil, time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC))
		return a, err
	}})
	decide(wrapped{memory, func(r store.Request) (store.Answer, error) {
		a, _, _, err := r.Decide([]byte("42"), time.Now())
		return a, err
	}})
	down := redisstore.New(nowhere(t), redisstore.WithBreaker(1, time.Minute), core.WithLogger(slog.New(slog.DiscardHandler)))
	decide(down)
	decide(down)
}

// nowhere is a client of a server that refuses connections.
func nowhere(t *testing.T) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", MaxRetries: -1, DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("dial tcp 127.0.0.1:6379: connect: connection refused")
	}})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func logsOfAddresses(t *testing.T) {
	t.Helper()
	_, err := httplimit.ClientIP()(&http.Request{RemoteAddr: "192.0.2.1:1", Header: http.Header{"X-Forwarded-For": {"203.0.113.5"}}})
	require.NoError(t, err)
	for _, option := range []core.IPOption{core.TrustHeader("CF-Connecting-IP"), core.TrustHeader("Forwarded"), core.TrustProxies("0.0.0.0/0")} {
		_ = httplimit.ClientIP(option)
	}
}

func logsOfMiddleware(t *testing.T) {
	t.Helper()
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
	policy.Shadow = true
	shadow := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	serve := func(h http.Handler) {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/items", nil))
	}
	unreadable := httptest.NewRequest(http.MethodGet, "/items", nil)
	unreadable.Header.Set("Forwarded", `for="2001:db8:1:0:0:0:0:17:4711"`)
	behindProxy := httplimit.ByIP(core.TrustProxies("192.0.2.1"), core.TrustHeader("Forwarded"))
	httplimit.New(limiter, behindProxy)(ok).ServeHTTP(httptest.NewRecorder(), unreadable)
	byIP := httplimit.New(limiter, httplimit.ByIP())
	serve(httplimit.New(limiter, httplimit.ByIP())(byIP(ok)))
	serve(httplimit.New(limiter, httplimit.ByRoute())(ok))
	serve(httplimit.New(limiter, httplimit.ByHeader("X-Api-Key"))(ok))
	serve(httplimit.New(shadow, httplimit.ByHeader("X-Api-Key"))(ok))
	serve(httplimit.New(limiter, httplimit.ByIP(), httplimit.WithPlan(func(*http.Request) (string, error) { return "gold", nil }))(ok))
	failing := func(*http.Request) (string, error) { return "", errors.New("look up user: connection refused") }
	serve(httplimit.New(limiter, failing)(ok))
	burst := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60).WithBurst(20).WithName("burst")}}))
	serve(httplimit.New(burst, httplimit.ByIP(), httplimit.WithCost(func(*http.Request) (int64, error) { return 50, nil }))(ok))
	negative := httplimit.WithSettle(func(*http.Request, int) core.Units { return core.Units{core.Requests: -1} })
	serve(httplimit.New(limiter, httplimit.ByIP(), negative)(ok))

	var c fasthttp.RequestCtx
	fast.WhenSent(&c, slog.Default(), nil, func() { panic("index out of range") })
	c.VisitUserValuesAll(func(_, value any) { // as fasthttp does when a response was sent
		if closer, ok := value.(io.Closer); ok {
			require.NoError(t, closer.Close())
		}
	})
}

// bounded is a hook that answers INFO as a server does that evicts, and a script
// of many keys as one does that has few of them.
type bounded struct{}

func (bounded) DialHook(next redis.DialHook) redis.DialHook { return next }
func (bounded) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if info, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "info" {
			info.SetVal("maxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n")
			return nil
		}
		if count, ok := cmd.(*redis.IntCmd); ok && cmd.Name() == "eval" {
			count.SetVal(7)
			return nil
		}
		return next(ctx, cmd)
	}
}
func (bounded) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func logsOfStores(t *testing.T) string {
	t.Helper()
	var lines logtest.Buffer
	logger := slog.New(slog.NewTextHandler(&lines, nil))
	misspelt := core.Must(core.NewLimiter(core.NewMemoryStore(),
		core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60), core.PerMinute(60).WithUnit("token")}}, core.WithLogger(logger)))
	for range 2000 {
		core.Must(misspelt.Allow(t.Context(), "ann"))
	}
	memory := core.NewMemoryStore()
	for _, n := range []int64{60, 100} {
		_, err := core.NewLimiter(memory, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(n)}}, core.WithLogger(logger))
		require.NoError(t, err)
	}
	// A key that something else has written.
	unreadable := wrapped{do: func(store.Request) (store.Answer, error) {
		return store.Answer{}, &store.StateError{Reason: "is not a rate limit state"}
	}}
	spoilt := core.Must(core.NewLimiter(unreadable, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}},
		core.WithLogger(logger)))
	_, _ = spoilt.Allow(t.Context(), "ann")
	// A server that wants a password.
	locked := miniredis.RunT(t)
	locked.RequireAuth("secret")
	stranger := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", DialerRetries: 1, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, locked.Addr())
	}})
	t.Cleanup(func() { _ = stranger.Close() })
	refused := core.Must(core.NewLimiter(redisstore.New(stranger, redisstore.WithBreaker(1, time.Hour), redisstore.WithTimeout(time.Minute), core.WithLogger(logger)),
		core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	_, _ = refused.Allow(t.Context(), "ann")
	following, stop := context.WithCancel(t.Context())
	defer stop()
	go redisstore.New(stranger, redisstore.WithTimeout(time.Minute), core.WithLogger(logger)).FollowExceptions(following, refused)
	require.Eventually(t, func() bool { return strings.Contains(lines.String(), "RL718") }, 20*time.Second, 5*time.Millisecond)
	logLoss(t, logger, lines.String)
	logOutages(t, logger, lines.String)
	return lines.String()
}

// logLoss has a store log that Redis has lost an exception, and that it can't
// write it again at first.
func logLoss(t *testing.T, logger *slog.Logger, lines func() string) {
	t.Helper()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	var refuses atomic.Bool
	client.AddHook(refusing{when: &refuses})
	store := redisstore.New(client, redisstore.WithTimeout(time.Minute), core.WithLogger(logger))
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	require.NoError(t, store.SetException(t.Context(), "api", redisstore.Exception{Key: "eve"}))
	require.NoError(t, store.ReadExceptions(t.Context(), limiter))
	server.FlushAll()
	refuses.Store(true)
	following, stop := context.WithCancel(t.Context())
	defer stop()
	go store.FollowExceptions(following, limiter)
	for _, message := range []string{"could not be put back", "and was put back"} {
		require.Eventually(t, func() bool { return strings.Contains(lines(), message) }, 20*time.Second, 5*time.Millisecond, message)
		refuses.Store(false)
	}
}

// refusing is a hook that refuses to put exceptions back.
type refusing struct {
	bounded

	when *atomic.Bool
}

// refusal is an error that a server replies.
type refusal string

func (r refusal) Error() string { return string(r) }

func (refusal) RedisError() {}

func (h refusing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.when.Load() && len(cmd.Args()) > 4 && cmd.Name() == "evalsha" {
			err := refusal("READONLY You can't write against a read only replica.")
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

// logOutages has a store log that a server is away and back, and what it may
// evict.
func logOutages(t *testing.T, logger *slog.Logger, lines func() string) {
	t.Helper()
	server := miniredis.RunT(t)
	var up atomic.Bool
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", DialerRetries: 1, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if !up.Load() {
			return nil, errors.New("dial tcp 127.0.0.1:6379: connect: connection refused")
		}
		return new(net.Dialer).DialContext(ctx, network, server.Addr())
	}})
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(bounded{})
	store := redisstore.New(client, redisstore.WithBreaker(1, time.Millisecond), redisstore.WithTimeout(time.Second), core.WithLogger(logger))
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	for _, message := range []string{"connection refused", "RL713", "RL714", "RL723"} {
		require.Eventually(t, func() bool {
			_, err := core.AllowTogether(t.Context(), core.Charge{Limiter: limiter, Key: "ann"}, core.Charge{Limiter: limiter, Key: "bob"})
			return err == nil && strings.Contains(lines(), message)
		}, 20*time.Second, 5*time.Millisecond, message)
		up.Store(true)
	}
}
