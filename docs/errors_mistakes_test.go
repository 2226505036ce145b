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
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// everyMistake makes every mistake of errors.md, and returns what the library
// says: in errors, in panics and in the log.
func everyMistake(t *testing.T) string {
	t.Helper()
	m := &mistakes{t: t}
	m.inGo()
	m.inPlans()
	m.inText()
	m.inFiles()
	m.inStores()
	m.inMiddleware()
	m.ofDecisions()
	m.ofSlots()
	m.withoutStore()
	m.said.WriteString(logtest.Capture(func() { logsOfAddresses(t) }))
	m.said.WriteString(logtest.Capture(func() { logsOfMiddleware(t) }))
	m.said.WriteString(logsOfStores(t))
	return m.said.String()
}

// mistakes makes mistakes, and keeps what the library says.
type mistakes struct {
	t    *testing.T
	said strings.Builder
}

func (m *mistakes) say(err error) {
	m.t.Helper()
	require.Error(m.t, err)
	m.said.WriteString(err.Error() + "\n")
}

// of keeps the error of a call that returns something else too.
func (m *mistakes) of(_ any, err error) { m.t.Helper(); m.say(err) }

// panics keeps what do panics with.
func (m *mistakes) panics(do func()) {
	m.t.Helper()
	defer func() {
		err, _ := recover().(error)
		m.say(err)
	}()
	do()
}

// policy makes a limiter of a policy with mistakes.
func (m *mistakes) policy(p core.Policy) {
	m.t.Helper()
	m.of(core.NewLimiter(core.NewMemoryStore(), p))
}

// limiterOf returns a limiter whose buckets are in a store, or in one of its
// own.
func limiterOf(in core.Store, name string, limits ...core.Limit) *core.Limiter {
	if in == nil {
		in = core.NewMemoryStore()
	}
	return core.Must(core.NewLimiter(in, core.Policy{Name: name, Limits: limits}))
}

func (m *mistakes) inPlans() {
	minute := core.PerMinute(60).WithName("minute")
	plans := core.Policy{
		Name: "api", Limits: []core.Limit{minute}, Plans: map[string][]core.Limit{"": {minute}, "pro": {core.PerDay(60)}},
		Overrides: map[string][]core.Limit{"user:ann": {core.PerMinute(600).WithName("minuet")}},
	}
	m.policy(plans)
	plans.Plans, plans.Overrides = map[string][]core.Limit{"pro": {minute}}, nil
	m.of(core.Must(core.NewLimiter(core.NewMemoryStore(), plans)).WithPlan("gold"))
}

func (m *mistakes) inGo() {
	m.of(core.NewLimiter(nil, core.Policy{
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
	}))
	m.policy(core.Policy{})
	m.policy(core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(5).WithMaxHold(30)}})
	m.policy(core.Policy{Name: "login", Limits: []core.Limit{core.PerMinute(5).WithPenalty(0)}})
	m.of(core.NewLimiter(&core.MemoryStore{}, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	limiter := limiterOf(nil, "api", core.PerMinute(60))
	m.say(limiter.SetPolicy(core.Policy{Name: "api-v2", Limits: []core.Limit{core.PerMinute(60)}}))
	core.Must(limiter.Allow(m.t.Context(), "k"))
	m.say(limiter.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60).WithUnit("tokens")}}))
	m.of(limiter.WithLimits())
	m.of(limiter.WithLimits(make([]core.Limit, 65)...))
	m.of(limiter.WithLimits(core.Limit{Capacity: 999_999_999_999_999, RefillRate: 1 / 3.0, RefillInterval: time.Minute, Mode: core.Stepped}))
	m.of(limiter.WithLimits(core.PerMonth(5).WithMode(core.Continuous)))
	m.of(core.PerMonth(5).In(time.FixedZone("here", 60)).MarshalText())
}

func (m *mistakes) inText() {
	for _, text := range []string{
		"10 per minute", "5 Tokens/min", "0 at once", "5 at once hold 31 days", "60/min hold 1m", "5/30ns",
	} {
		m.of(core.ParseLimit(text))
	}
}

func (m *mistakes) inFiles() {
	path := filepath.Join(m.t.TempDir(), "policies.yaml")
	require.NoError(m.t, os.WriteFile(path, []byte("- {name: api, limits: [60/min]}\n"), 0o600))
	m.say(policyfile.Reload(path, nil, limiterOf(nil, "login", core.PerMinute(5))))
	m.of(policyfile.LoadFile(filepath.Join("no", "policies.yaml")))
	for _, text := range []string{
		"", "policies: [", "a\xff", "policies: *other\n", strings.Repeat("#", 257<<10), strings.Repeat("- \n", 200),
		"policies:\n  - name: api\n    limits: [1/s]\n    onFailure: open\n", "policies:\n  - name: api\n    limits:\n      - tokens: 100/min\n",
		"policies:\n  - name: api\n    limits:\n      - 1/s\n    shadow: maybe\n", "policies:\n  - name: api\n    name: web\n    limits: [1/s]\n",
		"policies:\n  - {name: api, limits: [1/s]}\n  - {name: api, limits: [1/s]}\n", "policies: api\n",
	} {
		m.of(policyfile.Load(strings.NewReader(text)))
	}
}

func (m *mistakes) inStores() {
	for _, store := range []core.Store{
		nil, redisstore.New(nil), redisstore.New(redis.NewClient(&redis.Options{Addr: "redis://localhost:6379"})),
		redisstore.New(redis.NewClient(&redis.Options{}), redisstore.WithTimeout(0), redisstore.WithBreaker(0, 0), redisstore.WithDenyCache(-1),
			redisstore.WithLease(-1), redisstore.WithPrefix("shop{"), core.WithClock(nil)),
		core.NewMemoryStore(core.WithMaxKeys(0), core.WithClock(nil), redisstore.WithTimeout(time.Second)),
	} {
		m.of(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	}
	m.of(redisstore.Open("localhost:6379"))
	m.say(prometheus.NewRegistry().Register(promlimit.New(promlimit.WithMaxSeries(0), promlimit.WithBuckets(1, 1))))
	m.panics(func() {
		clientlimit.New(nil, clientlimit.WithLimiter(nil, clientlimit.ByHost()), clientlimit.WithAttempts(0), clientlimit.WithMaxWait(0))
	})
	m.say(&clientlimit.Error{Key: "host:api.example.com", Err: clientlimit.ErrQueueFull})
}

func (m *mistakes) inMiddleware() {
	limiter, token := limiterOf(nil, "api", core.PerMinute(60)), limiterOf(nil, "api", core.PerMinute(60).WithUnit("token"))
	tokens := limiterOf(nil, "llm", core.PerMinute(9000).WithUnit("tokens"))
	held := limiterOf(nil, "llm", core.PerMinute(60), core.PerMinute(9000).WithUnit("tokens").WithMaxHold(time.Minute))
	for _, key := range []httplimit.KeyFunc{
		httplimit.ByHeader(""), httplimit.ByCookie(""), httplimit.ByQuery(""), httplimit.ByParam(""), httplimit.Global(""),
		httplimit.ByContextValue([]string{"user"}), httplimit.ByContextValue(nil), httplimit.ByRouteOf(nil), httplimit.Join(), httplimit.FirstOf(httplimit.ByIP(), nil),
		httplimit.ByIP(core.TrustProxies("10.0.0.0/33"), core.TrustHeader(""), core.IPv6Prefix(0)),
	} {
		m.panics(func() { httplimit.New(limiter, key) })
	}
	cost := httplimit.WithCost(func(*http.Request) (int64, error) { return 9, nil })
	units := httplimit.WithUnits(func(*http.Request) (core.Units, error) { return core.Units{"tokens": 1000}, nil })
	settle := httplimit.WithSettle(func(*http.Request, int) core.Units { return nil })
	refund := httplimit.WithRefund(func(*http.Request, int) bool { return false })
	plans := httplimit.WithPlan(func(*http.Request) (string, error) { return "", nil })
	m.panics(func() { httplimit.New(nil, nil) })
	m.panics(func() { httplimit.New(token, httplimit.ByIP()) })
	m.panics(func() { httplimit.New(tokens, httplimit.ByIP(), cost) })
	m.panics(func() { httplimit.New(token, httplimit.ByIP(), settle) })
	m.panics(func() { httplimit.New(limiter, httplimit.ByIP(), settle, refund) })
	m.panics(func() {
		httplimit.New(limiter, httplimit.ByIP(), httplimit.WithCost(httplimit.CostByContentLengthOr(0, 0)))
	})
	m.panics(func() { httplimit.New(held, httplimit.ByIP(), units) })
	m.panics(func() { httplimit.NewTogether(nil) })
	m.panics(func() { httplimit.NewTogether([]httplimit.Rule{{Limiter: limiter, Key: httplimit.ByIP()}}, plans) })
	m.panics(func() { httplimit.PerIP(core.Limit{}) })
	m.of(adminlimit.New(nil, adminlimit.Config{Limiters: []*core.Limiter{limiter}, Hosts: []string{"localhost:80"}}))
}

func (m *mistakes) ofDecisions() {
	ctx, after := context.WithTimeout(m.t.Context(), time.Minute)
	defer after()
	limiter := limiterOf(nil, "api", core.PerHour(60))
	m.of(limiter.Allow(ctx, ""))
	m.of(limiter.AllowN(ctx, "ann", -1))
	m.say(limiter.Refund(ctx, "ann", -1))
	m.of(limiter.AllowUnits(ctx, "ann", core.Units{"tokens": 5}))
	m.say(limiter.WaitN(ctx, "ann", 61))
	core.Must(limiter.AllowN(ctx, "ann", 60))
	text, _, _ := strings.Cut(limiter.WaitN(ctx, "ann", 30).Error(), ": the wait is") // the rest is measured
	m.say(errors.New(text))
	m.of(core.AllowTogether(ctx))
	m.of(core.AllowTogether(ctx, core.Charge{Key: "ann"}))
	joint := core.Must(core.AllowTogether(ctx, core.Charge{Limiter: limiter, Key: "joint"}))
	require.NoError(m.t, joint.Undo(ctx))
	m.say(joint.Settle(ctx, nil))
	none := core.Result{}
	m.say(none.Undo(ctx))
	key := httplimit.ByHeader("X-Api-Key")
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	m.of(key(r))
	r.Header["X-Api-Key"] = []string{"k-1", "k-2"}
	m.of(key(r))
	r.RemoteAddr = "203.0.113.9"
	m.of(httplimit.ByIP()(r))
	r.RemoteAddr, r.Header = "203.0.113.9:80", http.Header{"X-Real-Ip": {"203.0.113.9:80"}}
	m.of(httplimit.ByIP()(r))
	m.of(httplimit.CostByContentLength(1)(&http.Request{ContentLength: -1}))
	m.say(store.ErrApart)
}

func (m *mistakes) ofSlots() {
	ctx, now := m.t.Context(), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	limiter := limiterOf(core.NewMemoryStore(core.WithClock(func() time.Time { return now })), "exports", core.InFlight(1))
	late := core.Must(limiter.Allow(ctx, "ann"))
	now = now.Add(2 * time.Minute)
	require.True(m.t, core.Must(limiter.Allow(ctx, "ann")).Allowed)
	m.say(late.Hold(ctx))
	m.say(limiter.Wait(ctx, "ann"))
}

// wrapped is a Store that hides what another can do.
type wrapped struct {
	core.Store
	do func(r store.Request) (store.Answer, error)
}

func (w wrapped) Do(_ context.Context, r store.Request) (store.Answer, error) { return w.do(r) }

// stored is a store that decides at a time by what is stored.
func stored(state []byte, at time.Time) core.Store {
	return wrapped{core.NewMemoryStore(), func(r store.Request) (store.Answer, error) {
		a, _, _, err := r.Decide(state, at)
		return a, err
	}}
}

func (m *mistakes) withoutStore() {
	down := redisstore.New(nowhere(m.t), redisstore.WithBreaker(1, time.Minute), core.WithLogger(slog.New(slog.DiscardHandler)))
	for _, in := range []core.Store{stored(nil, time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC)), stored([]byte("42"), time.Now()), down, down} {
		closed := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(60)}, OnFailure: core.FailClosed}
		m.of(core.Must(core.NewLimiter(in, closed)).Allow(m.t.Context(), "ann"))
	}
}

// dialled returns a client that calls itself one of 127.0.0.1:6379.
func dialled(t *testing.T, dial func(ctx context.Context) (net.Conn, error)) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", MaxRetries: -1, DialerRetries: 1,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var errRefused = errors.New("dial tcp 127.0.0.1:6379: connect: connection refused")

// nowhere is a client of a server that refuses connections.
func nowhere(t *testing.T) *redis.Client {
	t.Helper()
	return dialled(t, func(context.Context) (net.Conn, error) { return nil, errRefused })
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
	limiter := limiterOf(nil, "api", core.PerMinute(60))
	shadow := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}, Shadow: true}))
	burst := limiterOf(nil, "api", core.PerMinute(60).WithBurst(20).WithName("burst"))
	serve := func(layers ...func(http.Handler) http.Handler) {
		var h http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		for _, layer := range layers {
			h = layer(h)
		}
		r := httptest.NewRequest(http.MethodGet, "/items", nil)
		r.Header.Set("Forwarded", `for="2001:db8:1:0:0:0:0:17:4711"`) // a proxy that can't be read
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	serve(httplimit.New(limiter, httplimit.ByIP(core.TrustProxies("192.0.2.1"), core.TrustHeader("Forwarded"))))
	serve(httplimit.New(limiter, httplimit.ByIP()), httplimit.New(limiter, httplimit.ByIP()))
	serve(httplimit.New(limiter, httplimit.ByRoute()))
	serve(httplimit.New(limiter, httplimit.ByHeader("X-Api-Key")))
	serve(httplimit.New(shadow, httplimit.ByHeader("X-Api-Key")))
	serve(httplimit.New(limiter, httplimit.ByIP(), httplimit.WithPlan(func(*http.Request) (string, error) { return "gold", nil })))
	serve(httplimit.New(limiter, func(*http.Request) (string, error) { return "", errors.New("look up user: connection refused") }))
	serve(httplimit.New(burst, httplimit.ByIP(), httplimit.WithCost(func(*http.Request) (int64, error) { return 50, nil })))
	serve(httplimit.New(limiter, httplimit.ByIP(), httplimit.WithSettle(func(*http.Request, int) core.Units { return core.Units{core.Requests: -1} })))

	var c fasthttp.RequestCtx
	fast.WhenSent(&c, slog.Default(), nil, func() { panic("index out of range") })
	c.VisitUserValuesAll(func(_, value any) { // as fasthttp does when a response was sent
		if closer, ok := value.(io.Closer); ok {
			require.NoError(t, closer.Close())
		}
	})
}

// logs is a log and what it writes.
type logs struct {
	*slog.Logger

	lines *logtest.Buffer
}

// limiter returns a limiter that logs.
func (l logs) limiter(in core.Store, limits ...core.Limit) *core.Limiter {
	return core.Must(core.NewLimiter(in, core.Policy{Name: "api", Limits: limits}, core.WithLogger(l.Logger)))
}

// comes waits until the log has a message, and calls again meanwhile.
func (l logs) comes(t *testing.T, message string, again func()) {
	t.Helper()
	require.Eventually(t, func() bool {
		again()
		return strings.Contains(l.lines.String(), message)
	}, 20*time.Second, 5*time.Millisecond, message)
}

func logsOfStores(t *testing.T) string {
	t.Helper()
	l := logs{lines: new(logtest.Buffer)}
	l.Logger = slog.New(slog.NewTextHandler(l.lines, nil))
	misspelt := l.limiter(core.NewMemoryStore(), core.PerMinute(60), core.PerMinute(60).WithUnit("token"))
	for range 2000 {
		core.Must(misspelt.Allow(t.Context(), "ann"))
	}
	memory := core.NewMemoryStore()
	l.limiter(memory, core.PerMinute(60))
	l.limiter(memory, core.PerMinute(100))
	// A key that something else has written.
	unreadable := wrapped{do: func(store.Request) (store.Answer, error) {
		return store.Answer{}, &store.StateError{Reason: "is not a rate limit state"}
	}}
	_, _ = l.limiter(unreadable, core.PerMinute(60)).Allow(t.Context(), "ann")
	logRefusal(t, l)
	logLoss(t, l)
	logOutages(t, l)
	return l.lines.String()
}

// logRefusal has stores log that a server wants a password.
func logRefusal(t *testing.T, l logs) {
	t.Helper()
	locked := miniredis.RunT(t)
	locked.RequireAuth("secret")
	stranger := dialled(t, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", locked.Addr())
	})
	refused := l.limiter(redisstore.New(stranger, redisstore.WithBreaker(1, time.Hour), redisstore.WithTimeout(time.Minute), core.WithLogger(l.Logger)), core.PerMinute(60))
	_, _ = refused.Allow(t.Context(), "ann")
	following, stop := context.WithCancel(t.Context())
	defer stop()
	go redisstore.New(stranger, redisstore.WithTimeout(time.Minute), core.WithLogger(l.Logger)).FollowExceptions(following, refused)
	l.comes(t, "RL718", func() {})
}

// answering is a hook that replies itself if it wants to.
type answering struct {
	redistest.Hook

	reply func(redis.Cmder) (replied bool)
}

func (a answering) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if a.reply(cmd) {
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

// refusal is an error that a server replies.
type refusal string

func (r refusal) Error() string { return string(r) }

func (refusal) RedisError() {}

// logLoss has a store log that Redis has lost an exception, and that it can't
// write it again at first.
func logLoss(t *testing.T, l logs) {
	t.Helper()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	var refuses atomic.Bool
	client.AddHook(answering{reply: func(cmd redis.Cmder) bool {
		putsBack := refuses.Load() && len(cmd.Args()) > 4 && cmd.Name() == "evalsha"
		if putsBack {
			cmd.SetErr(refusal("READONLY You can't write against a read only replica."))
		}
		return putsBack
	}})
	store := redisstore.New(client, redisstore.WithTimeout(time.Minute), core.WithLogger(l.Logger))
	limiter := limiterOf(store, "api", core.PerMinute(60))
	require.NoError(t, store.SetException(t.Context(), "api", redisstore.Exception{Key: "eve"}))
	require.NoError(t, store.ReadExceptions(t.Context(), limiter))
	server.FlushAll()
	refuses.Store(true)
	following, stop := context.WithCancel(t.Context())
	defer stop()
	go store.FollowExceptions(following, limiter)
	l.comes(t, "could not be put back", func() {})
	refuses.Store(false)
	l.comes(t, "and was put back", func() {})
}

// logOutages has a store log that a server is away and back, that it may evict,
// and that it has few keys of a script.
func logOutages(t *testing.T, l logs) {
	t.Helper()
	server := miniredis.RunT(t)
	var up atomic.Bool
	client := dialled(t, func(ctx context.Context) (net.Conn, error) {
		if !up.Load() {
			return nil, errRefused
		}
		return new(net.Dialer).DialContext(ctx, "tcp", server.Addr())
	})
	client.AddHook(answering{reply: func(cmd redis.Cmder) bool {
		info, isText := cmd.(*redis.StringCmd)
		keys, isCount := cmd.(*redis.IntCmd)
		switch {
		case isText && cmd.Name() == "info":
			info.SetVal("maxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n")
		case isCount && cmd.Name() == "eval":
			keys.SetVal(7)
		default:
			return false
		}
		return true
	}})
	store := redisstore.New(client, redisstore.WithBreaker(1, time.Millisecond), redisstore.WithTimeout(time.Second), core.WithLogger(l.Logger))
	limiter := limiterOf(store, "api", core.PerMinute(60))
	for _, message := range []string{"connection refused", "RL713", "RL714", "RL723"} {
		l.comes(t, message, func() {
			_, _ = core.AllowTogether(t.Context(), core.Charge{Limiter: limiter, Key: "ann"}, core.Charge{Limiter: limiter, Key: "bob"})
		})
		up.Store(true)
	}
}
