package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// The tests of this file send requests through httplimit. What they show holds
// for every adapter, so package adaptertest leaves it out.

type httpMiddleware = func(http.Handler) http.Handler

var hello = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// ask sends a request with header fields, names and values in turns.
func ask(h http.Handler, fields ...string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	h.ServeHTTP(w, r)
	return w
}

// statuses sends so many requests as there are statuses, which must come back.
func statuses(t *testing.T, m httpMiddleware, want ...int) {
	t.Helper()
	for i, status := range want {
		assert.Equal(t, status, ask(m(hello)).Code, "request %d", i+1)
	}
}

// all is the key of all requests.
func all(*http.Request) (string, error) { return "all", nil }

// slow is a limit that gains nothing while a test runs.
func slow(name string, n int64) core.Limit { return core.PerDay(1).WithBurst(n).WithName(name) }

func words(n int64) core.Limit { return slow("words", n).WithUnit("words") }

// limits makes a limiter on s.
func limits(s core.Store, name string, limits ...core.Limit) *core.Limiter {
	return core.Must(core.NewLimiter(s, core.Policy{Name: name, Limits: limits}))
}

// with is limits with a change of the policy.
func with(s core.Store, p core.Policy, change func(*core.Policy)) *core.Limiter {
	change(&p)
	return core.Must(core.NewLimiter(s, p))
}

func shadow(p *core.Policy) { p.Shadow = true }

// left is what limits of l have left for a key.
func left(t *testing.T, l *core.Limiter, key string) map[string]int64 {
	t.Helper()
	res, err := l.Peek(t.Context(), key)
	require.NoError(t, err)
	has := map[string]int64{}
	for _, limit := range res.Limits() {
		has[limit.Limit.Name] = limit.Remaining
	}
	return has
}

func both(rules ...*core.Limiter) (list []httplimit.Rule) {
	for _, l := range rules {
		list = append(list, httplimit.Rule{Limiter: l, Key: all})
	}
	return list
}

func taking(u core.Units, err error) httplimit.Option {
	return httplimit.WithUnits(func(*http.Request) (core.Units, error) { return u, err })
}

func costing(n int64, err error) httplimit.Option {
	return httplimit.WithCost(func(*http.Request) (int64, error) { return n, err })
}

func settling(u core.Units) httplimit.Option {
	return httplimit.WithSettle(func(*http.Request, int) core.Units { return u })
}

// What a request takes, by the options that say it.
func TestWhatARequestTakes(t *testing.T) {
	type (
		options = []httplimit.Option
		remains = map[string]int64
		units   = core.Units
	)
	calls := slow("calls", 9)
	two := []core.Limit{calls, words(5)}
	for name, test := range map[string]struct {
		limits  []core.Limit
		options options
		status  int
		left    remains
	}{
		"units and a request": {
			two, options{taking(units{"words": 2}, nil)}, 200, remains{"calls": 8, "words": 3},
		},
		"nil units: a request":           {two, options{taking(nil, nil)}, 200, remains{"calls": 8, "words": 5}},
		"nil units, no requests counted": {[]core.Limit{words(5)}, options{taking(nil, nil)}, 200, remains{"words": 5}},
		"units without a request": {
			two, options{taking(units{"words": 2, core.Requests: 0}, nil)}, 200, remains{"calls": 9, "words": 3},
		},
		"a cost in requests beside units": {
			two, options{taking(units{"words": 2}, nil), costing(3, nil)}, 200, remains{"calls": 6, "words": 3},
		},
		"an unknown cost: the capacity": {
			[]core.Limit{calls, slow("few", 7)}, options{costing(0, core.ErrUnknownCost)}, 200, remains{"calls": 2, "few": 0},
		},
		"an unknown cost beside units": {
			two, options{taking(units{"words": 2}, nil), costing(0, core.ErrUnknownCost)}, 200, remains{"calls": 0, "words": 3},
		},
		"a unit that no limit counts": {
			two, options{taking(units{"words": 1, "pages": 1}, nil)}, 500, remains{"calls": 9, "words": 5},
		},
		"a negative number of units": {
			two, options{taking(units{"words": -1}, nil)}, 500, remains{"calls": 9, "words": 5},
		},
		"units of a function that fails": {
			two, options{taking(units{"words": 1}, errInside)}, 500, remains{"calls": 9, "words": 5},
		},
		"a cost of a function that fails": {[]core.Limit{calls}, options{costing(1, errInside)}, 500, remains{"calls": 9}},
		"a negative cost":                 {[]core.Limit{calls}, options{costing(-5, nil)}, 500, remains{"calls": 9}},
		"a settlement of less": {
			two, options{taking(units{"words": 4}, nil), settling(units{"words": 1})}, 200, remains{"calls": 8, "words": 4},
		},
		"a settlement of nothing": {
			two, options{taking(units{"words": 4}, nil), settling(units{"words": 0, core.Requests: 0})}, 200,
			remains{"calls": 9, "words": 5},
		},
		"a settlement of a unit alone": {
			two, options{taking(units{"words": 4}, nil), settling(units{core.Requests: 3})}, 200,
			remains{"calls": 6, "words": 1},
		},
		"a nil settlement": {
			two, options{taking(units{"words": 4}, nil), settling(nil)}, 200, remains{"calls": 8, "words": 1},
		},
		"a settlement without WithUnits": {
			two, options{settling(units{"words": 2})}, 200, remains{"calls": 8, "words": 3},
		},
		"a settlement that no limit counts": {
			two, options{taking(units{"words": 4}, nil), settling(units{"pages": 1})}, 200, remains{"calls": 8, "words": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, install := range map[string]func(*core.Limiter) httpMiddleware{
				"New": func(l *core.Limiter) httpMiddleware { return httplimit.New(l, all, test.options...) },
				"NewTogether": func(l *core.Limiter) httpMiddleware {
					return httplimit.NewTogether(both(l, limits(core.NewMemoryStore(), "other", slow("other", 99))), test.options...)
				},
			} {
				l := limits(core.NewMemoryStore(), "api", test.limits...)
				w := ask(install(l)(hello))
				assert.Equal(t, test.status, w.Code, kind)
				assert.NotContains(t, w.Body.String(), errInside.Error(), kind)
				assert.Equal(t, test.left, left(t, l, "all"), kind)
			}
		})
	}
}

// A settlement above the charge is a debt, and one that fails is reported.
func TestSettlements(t *testing.T) {
	l := limits(core.NewMemoryStore(), "api", slow("calls", 9), words(12))
	statuses(t, httplimit.New(l, all, taking(core.Units{"words": 10}, nil), settling(core.Units{"words": 20})), 200, 429)

	var unsettled atomic.Int64
	observer := core.WithObserver(func(_ context.Context, o core.Observation) {
		if o.Outcome == core.OutcomeUnsettled {
			unsettled.Add(1)
		}
	})
	failing := core.Must(core.NewLimiter(&failingStore{Store: core.NewMemoryStore(), good: 1}, core.Policy{Name: "api", Limits: []core.Limit{slow("calls", 9)}}, observer))
	log := logtest.Capture(func() { statuses(t, httplimit.New(failing, all, settling(core.Units{core.Requests: 3})), 200) })
	assert.Equal(t, 1, strings.Count(log, "code=RL710"), log)
	assert.EqualValues(t, 1, unsettled.Load(), "observers receive a settlement that failed")

	now := time.Now()
	estimates := limits(core.NewMemoryStore(core.WithClock(func() time.Time { return now })), "estimates", slow("calls", 9), words(12).WithMaxHold(time.Minute))
	statuses(t, httplimit.New(estimates, all, taking(core.Units{"words": 10}, nil), settling(nil)), 200)
	now = now.Add(time.Hour)
	assert.Equal(t, map[string]int64{"calls": 8, "words": 2}, left(t, estimates, "all"), "a nil settlement keeps estimates beyond MaxHold")
}

// failingStore fails after some calls.
type failingStore struct {
	core.Store
	good, calls int
}

func (s *failingStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if s.calls++; s.calls > s.good {
		return store.Answer{}, errInside
	}
	return s.Store.Do(ctx, r)
}

// A decision that is to be settled is settled although its context ends before
// it is known.
func TestASettledDecisionOutlivesItsContext(t *testing.T) {
	for _, together := range []bool{false, true} {
		ctx, end := context.WithCancel(t.Context())
		memory := core.NewMemoryStore()
		l := limits(leavingStore{memory, end}, "api", slow("calls", 9))
		m := httplimit.New(l, all, settling(core.Units{core.Requests: 3}))
		if together {
			m = httplimit.NewTogether(both(l, limits(memory, "other", slow("other", 9))), settling(core.Units{core.Requests: 3}))
		}
		r, w := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx), httptest.NewRecorder()
		m(hello).ServeHTTP(w, r)
		assert.Equal(t, 200, w.Code)
		assert.Equal(t, map[string]int64{"calls": 6}, left(t, limits(memory, "api", slow("calls", 9)), "all"))
	}
}

// leavingStore ends the caller's context when it has decided.
type leavingStore struct {
	core.Store
	end func()
}

func (s leavingStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	a, err := s.Store.Do(context.WithoutCancel(ctx), r)
	s.end()
	return a, errors.Join(err, ctx.Err())
}

// New and NewTogether panic if a limit would never apply, or if every request
// would fail.
func TestMistakesInUnits(t *testing.T) {
	calls, held := slow("calls", 9), words(50).WithMaxHold(time.Minute)
	override := func(limits ...core.Limit) func(*core.Policy) {
		return func(p *core.Policy) { p.Overrides = map[string][]core.Limit{"ann": limits} }
	}
	const never = `"words" is a unit that policy "api" counts and this middleware never takes`
	const held1 = `"api" has a limit of words with a MaxHold, and this middleware settles nothing`
	for name, test := range map[string]struct {
		limits  []core.Limit
		change  func(*core.Policy)
		options []httplimit.Option
		want    string
	}{
		"a limit of a unit that is never taken": {limits: []core.Limit{calls, words(50)}, want: never},
		"such an override": {
			limits: []core.Limit{calls}, change: override(words(50).WithName("calls")), want: never,
		},
		"such a plan": {
			limits: []core.Limit{calls}, change: func(p *core.Policy) { p.Plans = map[string][]core.Limit{"pro": {words(50)}} },
			want: never,
		},
		"no limit of requests": {
			limits: []core.Limit{words(50)}, options: []httplimit.Option{settling(nil)},
			want: `"requests" is a unit that no limit of policy "api" counts`,
		},
		"a cost without a limit of requests": {
			limits: []core.Limit{words(50)}, options: []httplimit.Option{costing(1, nil), taking(nil, nil)},
			want: `WithCost: "api" is a policy without a limit that counts requests`,
		},
		"estimates that nothing settles": {
			limits: []core.Limit{calls, held}, options: []httplimit.Option{taking(nil, nil)}, want: held1,
		},
		"such an override of estimates": {
			limits: []core.Limit{calls, words(9)}, change: override(slow("calls", 9), held),
			options: []httplimit.Option{taking(nil, nil)}, want: held1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy := core.Policy{Name: "api", Limits: test.limits}
			if test.change != nil {
				test.change(&policy)
			}
			l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
			assert.Contains(t, panicOf(func() { httplimit.New(l, all, test.options...) }), test.want)
			assert.Contains(t, panicOf(func() { httplimit.NewTogether(both(l, l), test.options...) }), test.want)
			policy.Shadow = true
			l = core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
			statuses(t, httplimit.New(l, all, test.options...), 200)
		})
	}
	assert.Contains(t, panicOf(func() { httplimit.NewTogether(nil) }), "NewTogether: 0 rules given")
	l := limits(core.NewMemoryStore(), "api", calls)
	assert.Contains(t, panicOf(func() {
		httplimit.NewTogether(both(l), httplimit.WithPlan(func(*http.Request) (string, error) { return "", nil }))
	}), `"WithPlan" can't be used with several limiters`)
}

func panicOf(f func()) (mistake string) {
	defer func() { mistake = fmt.Sprint(recover()) }()
	f()
	return ""
}

// A limiter in shadow mode refuses nothing, whatever is wrong with a request.
func TestALimiterInShadowModeBesideOthers(t *testing.T) {
	user := httplimit.ByHeader("User")
	for name, test := range map[string]struct {
		trial   []core.Limit
		key     httplimit.KeyFunc
		options []httplimit.Option
		log     int
	}{
		"it lacks tokens":    {trial: []core.Limit{slow("trial", 1)}, key: all},
		"its key is missing": {trial: []core.Limit{slow("trial", 9)}, key: user, log: 1},
		"it alone counts the unit": {
			trial: []core.Limit{slow("trial", 9), words(9)}, key: all,
			options: []httplimit.Option{taking(core.Units{"words": 7}, nil)},
		},
		"it counts no requests":     {trial: []core.Limit{words(9)}, key: all},
		"the unit's key is missing": {trial: []core.Limit{slow("trial", 9), words(9)}, key: user, options: []httplimit.Option{taking(core.Units{"words": 7}, nil)}, log: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := core.NewMemoryStore()
			rules := []httplimit.Rule{
				{Limiter: with(s, core.Policy{Name: "trial", Limits: test.trial}, shadow), Key: test.key},
				{Limiter: limits(s, "one", slow("one", 2)), Key: all},
			}
			log := logtest.Capture(func() { statuses(t, httplimit.NewTogether(rules, test.options...), 200, 200, 429, 429) })
			assert.Equal(t, test.log, strings.Count(log, "code=RL708"), log)
		})
	}
	trials := []httplimit.Rule{{Limiter: with(core.NewMemoryStore(), core.Policy{Name: "trial", Limits: []core.Limit{slow("trial", 1)}}, shadow), Key: user}}
	statuses(t, httplimit.NewTogether(append(trials, trials...)), 200, 200)
}

// While the store of one limiter is away, its policy says what holds.
func TestLimitersWhoseStoreIsAway(t *testing.T) {
	for mode, want := range map[core.FailureMode][]int{
		core.FailClosed: {503, 503, 503}, core.FailOpen: {200, 200, 200, 200, 429}, core.FailLocal: {200, 200, 429},
	} {
		one := limits(core.NewMemoryStore(), "one", slow("one", 4))
		two := with(&failingStore{}, core.Policy{Name: "two", Limits: []core.Limit{slow("two", 2)}}, func(p *core.Policy) { p.OnFailure = mode })
		statuses(t, httplimit.NewTogether(both(one, two)), want...)
		taken := int64(strings.Count(fmt.Sprint(want), "200"))
		assert.Equal(t, map[string]int64{"one": 4 - taken}, left(t, one, "all"), "%v: a refused request takes nothing", mode)
	}
	l := limits(&failingStore{}, "local", slow("local", 1))
	refund := httplimit.WithRefund(func(*http.Request, int) bool { return true })
	statuses(t, httplimit.New(l, all, refund), 200, 200, 200) // tokens of the fallback return to it
}

// An unknown cost is the whole Capacity of the limits that decide: of those of
// the fallback while the store is away, and not that of the store's.
func TestAnUnknownCostWhileTheStoreIsAway(t *testing.T) {
	s := &failingStore{Store: core.NewMemoryStore(), good: 1}
	l := with(s, core.Policy{Name: "api", Limits: []core.Limit{slow("few", 40), slow("many", 100)}}, func(p *core.Policy) { p.LocalShare = 0.5 })
	var costs []int64
	h := httplimit.New(l, func(r *http.Request) (string, error) { return r.Header.Get("User"), nil }, costing(0, core.ErrUnknownCost))(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			res, _ := httplimit.FromContext(r.Context())
			costs = append(costs, res.Cost)
		}))
	assert.Equal(t, 200, ask(h, "User", "ann").Code)
	assert.Equal(t, 200, ask(h, "User", "bob").Code, "this process decides alone")
	assert.Equal(t, []int64{40, 20}, costs)

	for _, mode := range []core.FailureMode{core.FailLocal, core.FailOpen} {
		blocked := with(&failingStore{}, core.Policy{Name: "api", Limits: []core.Limit{slow("few", 40)}, Blocked: []string{"all"}}, func(p *core.Policy) { p.OnFailure = mode })
		statuses(t, httplimit.New(blocked, all, costing(0, core.ErrUnknownCost)), 429)
	}
}

// An unknown cost leaves the floor, also behind several limiters.
func TestAnUnknownCostLeavesTheFloor(t *testing.T) {
	s := core.NewMemoryStore()
	alone, first, second := limits(s, "alone", slow("few", 40)), limits(s, "first", slow("few", 40)), limits(s, "second", slow("many", 100))
	floor := httplimit.WithFloor(func(*http.Request) (core.Units, error) { return core.Units{core.Requests: 15}, nil })
	statuses(t, httplimit.New(alone, all, costing(0, core.ErrUnknownCost), floor), 200, 429)
	statuses(t, httplimit.NewTogether(both(first, second), costing(0, core.ErrUnknownCost), floor), 200, 429)
	assert.Equal(t, map[string]int64{"few": 15}, left(t, alone, "all"))
	assert.Equal(t, map[string]int64{"few": 15}, left(t, first, "all"))
	assert.Equal(t, map[string]int64{"many": 15}, left(t, second, "all"))
}

// A plan that the policy lacks means the policy's own limits.
func TestAPlanThatThePolicyLacks(t *testing.T) {
	log := logtest.Capture(func() {
		plan := httplimit.WithPlan(func(*http.Request) (string, error) { return "gold", nil })
		statuses(t, httplimit.New(limits(core.NewMemoryStore(), "plans", slow("calls", 2)), all, plan), 200, 200, 429)
	})
	assert.Equal(t, 1, strings.Count(log, "code=RL720"), log)
	assert.Contains(t, log, "plan=gold")
}

// allowWarned says that a run of the test in this process has had the warning of
// Allow, which is logged once a minute for all handlers.
var allowWarned atomic.Bool

// A request that one policy charges twice for one key is a mistake, which is
// logged once. A handler may ask again.
func TestARequestThatIsChargedTwice(t *testing.T) {
	s := core.NewMemoryStore()
	one, two := limits(s, "one", slow("one", 99)), limits(s, "two", slow("two", 99))
	again := func(keys ...string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, key := range keys {
				httplimit.Allow(w, r, two, key)
			}
			var found []string
			for _, res := range httplimit.AllFromContext(r.Context()) {
				found = append(found, res.Limits()[0].Limit.Name+" "+strconv.FormatInt(res.Remaining, 10))
			}
			w.Header().Set("Found", strings.Join(found, ", "))
		})
	}
	for name, test := range map[string]struct {
		app   http.Handler
		lines int
	}{
		"two middlewares": {httplimit.New(one, all)(httplimit.NewTogether(both(one, two))(hello)), 1},
		"two keys of a limiter": {
			httplimit.NewTogether([]httplimit.Rule{{Limiter: one, Key: all}, {Limiter: one, Key: httplimit.Global("b")}})(hello),
			0,
		},
		"a handler in a loop":    {httplimit.New(one, all)(again("a", "a", "b", "a")), 0},
		"a middleware and Allow": {httplimit.New(two, all)(again("all")), 1},
	} {
		if name == "a middleware and Allow" && allowWarned.Swap(true) {
			test.lines = 0
		}
		log := logtest.Capture(func() {
			for range 3 {
				ask(test.app)
			}
		})
		assert.Equal(t, test.lines, strings.Count(log, "code=RL704"), "%s: %s", name, log)
	}
	fresh := limits(s, "fresh", slow("fresh", 9))
	two = limits(s, "loop", slow("loop", 50))
	assert.Equal(t, "loop 48, loop 49, loop 49, fresh 8", ask(httplimit.New(fresh, all)(again("a", "b", "a"))).Header().Get("Found"))
}

// What a middleware logs goes to its limiter's logger.
func TestWhereAMiddlewareLogs(t *testing.T) {
	var lines logtest.Buffer
	logger := core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil)))
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{slow("calls", 9)}}, logger))
	proxied := []string{"X-Forwarded-For", "192.0.2.9"}
	defaults := logtest.Capture(func() {
		ask(httplimit.New(l, httplimit.ByHeader("Missing"))(hello))
		ask(httplimit.New(l, all, costing(0, errInside))(hello))
		ask(httplimit.New(l, all, httplimit.WithSettle(func(*http.Request, int) core.Units { panic("usage") }))(hello))
		ask(httplimit.New(l, httplimit.Join(httplimit.ByIP(), all))(hello), proxied...)
		ask(httplimit.New(l, all)(httplimit.New(l, all)(hello)))
	})
	for _, code := range []string{"RL701", "RL704", "RL707", "RL709", "RL710"} {
		assert.Equal(t, 1, lines.Count("code="+code), "%s: %s", code, lines.String())
	}
	assert.Empty(t, defaults, "nothing goes to the default logger")
}

// Of stacked limiters the outer one's draft holds for all fields.
func TestStackedLimitersSendOneDraft(t *testing.T) {
	names := func(outer, inner core.HeaderStyle) (found []string) {
		s := core.NewMemoryStore()
		of := func(style core.HeaderStyle, name string, n int64) *core.Limiter {
			return with(s, core.Policy{Name: name, Limits: []core.Limit{slow(name, n)}}, func(p *core.Policy) { p.Headers = style })
		}
		header := ask(httplimit.New(of(outer, "wide", 9), all)(httplimit.New(of(inner, "tight", 3), all)(hello))).Header()
		for name := range maps.Keys(header) {
			found = append(found, name+" "+strconv.Itoa(len(header.Values(name))))
		}
		return found
	}
	draft6 := []string{"Ratelimit-Limit 1", "Ratelimit-Remaining 1", "Ratelimit-Reset 1", "Ratelimit-Policy 2"}
	assert.ElementsMatch(t, draft6, names(core.HeadersDraft6, core.HeadersDraft6))
	assert.ElementsMatch(t, draft6, names(core.HeadersDraft6, core.HeadersDraft8))
	assert.ElementsMatch(t, []string{"Ratelimit 2", "Ratelimit-Policy 2"}, names(core.HeadersDraft8, core.HeadersDraft6))
}

// Keys that say nothing are missing, and the log says which were looked for.
func TestKeysThatAreMissing(t *testing.T) {
	empty := func(*http.Request) (string, error) { return "", nil }
	for name, key := range map[string]httplimit.KeyFunc{
		"an empty key": empty, "an empty part": httplimit.Join(all, empty),
		"nothing of FirstOf": httplimit.FirstOf(httplimit.ByHeader("User"), empty, httplimit.ByHeader("Session")),
	} {
		log := logtest.Capture(func() {
			statuses(t, httplimit.New(limits(core.NewMemoryStore(), "api", slow("calls", 9)), key), 400, 400)
		})
		assert.Equal(t, 1, strings.Count(log, "code=RL707"), name)
		if strings.HasPrefix(name, "nothing") {
			assert.Contains(t, log, "user")
			assert.Contains(t, log, "session")
		}
	}
	statuses(t, httplimit.New(limits(core.NewMemoryStore(), "api", slow("calls", 9)), httplimit.FirstOf(empty, all)), 200)
}

// Rules whose keys give one bucket are one charge of the sum, and an unknown
// cost takes the bucket's capacity once.
func TestRulesOfOneBucket(t *testing.T) {
	l := limits(core.NewMemoryStore(), "one", slow("one", 5))
	w := ask(httplimit.NewTogether(both(l, l), costing(2, nil))(hello))
	assert.Equal(t, 200, w.Code)
	assert.Equal(t, "1", w.Header().Get("X-RateLimit-Remaining"), "the bucket after both charges")
	assert.Equal(t, 1, strings.Count(w.Header().Get("RateLimit-Policy"), ";q="), "the bucket is listed once")
	statuses(t, httplimit.NewTogether(both(l, l)), 429) // 2 of 1
	assert.Equal(t, map[string]int64{"one": 1}, left(t, l, "all"), "a denial takes nothing")

	l = limits(core.NewMemoryStore(), "one", slow("one", 5))
	statuses(t, httplimit.NewTogether(both(l, l), costing(0, core.ErrUnknownCost)), 200)
	assert.Equal(t, map[string]int64{"one": 0}, left(t, l, "all"))
}
