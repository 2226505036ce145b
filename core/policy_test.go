package core_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// What SetPolicy changed is said limit by limit, in words, and to whoever asked
// for it.
func TestSetPolicySaysWhatItChanged(t *testing.T) {
	first := core.Policy{
		Name:      "api",
		Limits:    []core.Limit{core.PerMinute(60), core.PerDay(1000).WithName("daily"), core.InFlight(5).WithName("at once")},
		Plans:     map[string][]core.Limit{"pro": {core.PerDay(2000).WithName("daily")}, "trial": {core.PerDay(10).WithName("daily")}},
		Overrides: map[string][]core.Limit{"ann": {core.PerMinute(5)}, "bob": {core.PerMinute(5)}},
	}
	for rule, test := range map[string]struct {
		edit func(*core.Policy)
		want []string
	}{
		"nothing":             {func(*core.Policy) {}, nil},
		"a limit":             {func(p *core.Policy) { p.Limits[1] = core.PerDay(2000).WithName("daily") }, []string{`limit "daily": 2000/day, was 1000/day`}},
		"the order of limits": {func(p *core.Policy) { p.Limits[0], p.Limits[1] = p.Limits[1], p.Limits[0] }, []string{"limits: in another order"}},
		"a limit more":        {func(p *core.Policy) { p.Limits = append(p.Limits, core.PerHour(9).WithName("x")) }, []string{`limit "x": 9/h, is new`}},
		"a limit less": {func(p *core.Policy) { p.Limits, p.Plans = p.Limits[:1], nil },
			[]string{`limit "api": 60/min, is new`, `limit "api-1m": removed, was 60/min`, `limit "daily": removed, was 1000/day`, `limit "at once": removed, was 5 at once`,
				`plan "pro": removed`, `plan "trial": removed`}},
		"what limits hold": {func(p *core.Policy) {
			p.Limits[1] = core.PerDay(1000).WithName("daily").WithUnit("tokens").WithMaxHold(time.Minute)
			p.Limits[2] = core.InFlight(8).WithName("at once").WithMaxHold(2 * time.Minute)
		}, []string{`limit "daily": 1000 tokens/day hold min, was 1000/day`, `limit "at once": 8 at once hold 2min, was 5 at once`}},
		"slots in place of tokens": {func(p *core.Policy) { p.Limits[1] = core.InFlight(9).WithName("daily") }, []string{`limit "daily": 9 at once, was 1000/day`}},
		"plans": {func(p *core.Policy) {
			p.Plans = map[string][]core.Limit{"pro": {core.PerDay(3000).WithName("daily")}, "gold": {core.PerDay(5000).WithName("daily")}}
		}, []string{`plan "gold": is new`, `plan "gold": limit "daily": 5000/day, is new`, `plan "pro": limit "daily": 3000/day, was 2000/day`, `plan "trial": removed`}},
		"overrides": {func(p *core.Policy) {
			p.Overrides = map[string][]core.Limit{"ann": {core.PerMinute(6)}, "eve": {core.PerMinute(5)}, "joe": {core.PerMinute(5)}}
		}, []string{"overrides: 2 added, 1 removed, 1 changed"}},
		"all else": {func(p *core.Policy) {
			p.OnFailure, p.LocalShare, p.Shadow, p.Headers = core.FailOpen, 0.5, true, core.HeadersNone
		}, []string{"OnFailure: FailOpen, was FailLocal", "LocalShare: 0.5, was 1", "Shadow: true, was false", fmt.Sprintf("Headers: %v, was %v", core.HeadersNone, core.HeadersDefault)}},
		"a share that is the default": {func(p *core.Policy) { p.LocalShare = 1 }, nil},
	} {
		t.Run(rule, func(t *testing.T) {
			next := first
			next.Limits = append([]core.Limit{}, first.Limits...)
			test.edit(&next)
			var lines bytes.Buffer
			var names []string
			var reply [][]string
			l := core.Must(core.NewLimiter(core.NewMemoryStore(), first, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))),
				core.WithPolicyObserver(nil), core.WithPolicyObserver(func(now core.Policy, changes []string) {
					names, reply = append(names, now.Name+" "+now.Limits[0].Name), append(reply, changes)
				})))
			require.Equal(t, [][]string{nil}, reply, "NewLimiter reports the limits that are in force")
			assert.Equal(t, "api api-1m", names[0], "each limit has its name")

			require.NoError(t, l.SetPolicy(next))
			if test.want == nil {
				assert.Len(t, reply, 1, "no change is reported where there is none")
				assert.Empty(t, lines.String(), "no change is logged where there is none")
				return
			}
			require.Equal(t, [][]string{nil, test.want}, reply, "each change is reported, in words")
			assert.Contains(t, lines.String(), `level=INFO msg="ratelimit: the policy has changed" policy=api changes=`)
			for _, change := range test.want {
				assert.Contains(t, strings.ReplaceAll(lines.String(), `\"`, `"`), change, "the log shows each change")
			}
			assert.NotContains(t, lines.String(), "ann", "keys of overrides are not logged")

			require.Error(t, l.SetPolicy(core.Policy{Name: "api"}))
			assert.Len(t, reply, 2, "a refused policy changes nothing")
		})
	}
}

// The last that an observer receives is what is in force, however many
// goroutines change the policy.
func TestPolicyObserversReceiveChangesInTheirOrder(t *testing.T) {
	var mu sync.Mutex
	var last core.Policy
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(1)}},
		core.WithPolicyObserver(func(now core.Policy, _ []string) { mu.Lock(); defer mu.Unlock(); last = now })))
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 200 {
				assert.NoError(t, l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(1 + g*200 + i)}}))
			}
		})
	}
	all.Wait()
	assert.Equal(t, l.Policy().Limits[0].Capacity, last.Limits[0].Capacity, "the last change reported is the policy in force")
}

// A policy change on the store's logger: limiters without one of their own use
// it.
func TestPolicyChangeIsLoggedByTheStoresLogger(t *testing.T) {
	var lines bytes.Buffer
	store := redisstore.New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	l := limittest.Limiter(t, store, "api", core.PerMinute(1))
	require.NoError(t, l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(2)}}))
	assert.Contains(t, lines.String(), "2/min, was 1/min")
}

// raised is an exception for a key.
func raised(key string, limits ...core.Limit) core.Exceptions {
	return core.Exceptions{Overrides: map[string][]core.Limit{key: limits}}
}

// Without a store a process keeps to plans, exceptions and blocks.
func TestLimitsOfKeysWithoutAStore(t *testing.T) {
	for mode, want := range map[core.FailureMode][2]int64{core.FailLocal: {299, 3}, core.FailOpen: {}} {
		away := newAskedStore()
		away.down.Store(true)
		limiter := core.Must(core.NewLimiter(away, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(4)},
			Plans: map[string][]core.Limit{"pro": {core.PerHour(600).WithName("api")}}, OnFailure: mode, LocalShare: 0.5}))
		require.NoError(t, limiter.SetExceptions(raised("ann", core.PerHour(8))))
		pro := core.Must(core.Must(limiter.WithPlan("pro")).Allow(t.Context(), "joe"))
		ann := core.Must(limiter.Allow(t.Context(), "ann"))
		assert.Equal(t, want, [2]int64{pro.Remaining, ann.Remaining}, "%v: its shares of the plan and of the exception", mode)
	}
}

// An exception of one key changes nothing of others: denials that the deny
// cache repeats, and tokens on lease, are of a plan.
func TestExceptionsKeepThePlansOfOtherKeys(t *testing.T) {
	plans := make(map[string]map[*bucket.LimitSet]bool)
	s := newAskedStore()
	s.before = func(r store.Request) {
		if plans[r.Key()] == nil {
			plans[r.Key()] = make(map[*bucket.LimitSet]bool)
		}
		plans[r.Key()][r.Set] = true
	}
	limiter := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(4)}}))
	for i := range 5 {
		e := raised("ann", core.PerDay(8).In(time.FixedZone("here", 3600)))
		e.Overrides[fmt.Sprint("joe", i)] = []core.Limit{core.PerHour(5 + i)}
		e.Blocked = []string{"eve", fmt.Sprint("bob", i)}
		require.NoError(t, limiter.SetExceptions(e))
		for _, key := range []string{"ann", "eve"} {
			core.Must(limiter.Allow(t.Context(), key))
		}
	}
	assert.Len(t, plans["ann"], 1, "the override of a key that has not changed")
	assert.Len(t, plans["eve"], 1, "a block")
}

// A key that no store has as it is stands for what stores have.
func TestExceptionsOfLongKeysHold(t *testing.T) {
	long := "x-api-key:" + strings.Repeat("k\n", 5000)
	for name, key := range map[string]string{"as clients have it": long, "as stores have it": store.Key(long)} {
		limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerHour(4))
		e := raised(key, core.PerHour(8))
		e.Blocked = []string{"sha256:x", key, key}
		require.NoError(t, limiter.SetExceptions(e))
		for _, blocked := range []string{long, "sha256:x"} {
			res, err := limiter.Allow(t.Context(), blocked)
			wantBlocked(t, res, err, "a key "+name)
		}
		assert.EqualValues(t, 8, limiter.Limits(long)[0].Capacity, "a key %s", name)
		assert.ElementsMatch(t, []string{"sha256:x", store.Key(long)}, limiter.Exceptions().Blocked, "each once, as stores have them")
		assert.Equal(t, e.Overrides[key], limiter.Exceptions().Overrides[store.Key(long)])
		assert.Empty(t, limiter.Policy().Overrides, "the policy is as before")
	}
}

// A policy must count the units that callers take, whatever an exception
// counts.
func TestExceptionsCountNoUnitsOfPolicies(t *testing.T) {
	units := core.PerHour(1000).WithUnit("tokens").WithName("tokens")
	both, alone := []core.Limit{core.PerHour(4), units}, []core.Limit{core.PerHour(4)}
	take := func(l *core.Limiter, key string) error {
		_, err := l.AllowUnits(t.Context(), key, core.Units{"tokens": 5})
		return err
	}
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", both...)
	require.NoError(t, take(limiter, "joe"))
	require.NoError(t, limiter.SetExceptions(raised("ann", both...)))
	require.ErrorContains(t, limiter.SetPolicy(core.Policy{Name: "api", Limits: alone}), "RL117", "after the exception's end all requests would fail")
	require.NoError(t, limiter.SetExceptions(core.Exceptions{}))
	require.NoError(t, take(limiter, "joe"))

	limiter = limittest.Limiter(t, core.NewMemoryStore(), "api", alone...)
	require.NoError(t, limiter.SetExceptions(raised("ann", units.WithName("api"))))
	require.NoError(t, take(limiter, "ann"))
	require.NoError(t, limiter.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(5)}}), "the policy never counted the unit")

	limiter = limittest.Limiter(t, core.NewMemoryStore(), "api", units)
	require.NoError(t, limiter.SetExceptions(raised("ann", core.PerHour(4).WithName("tokens"))))
	core.Must(limiter.Allow(t.Context(), "ann"))
	require.NoError(t, limiter.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{units.WithName("other")}}), "the policy never counted requests")
}

func TestExceptionsReportEveryMistake(t *testing.T) {
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerHour(4))
	require.NoError(t, limiter.SetExceptions(core.Exceptions{Blocked: []string{"eve"}}))
	err := limiter.SetExceptions(core.Exceptions{
		Overrides: map[string][]core.Limit{"": {core.PerHour(1)}, "x-api-key:secret": {core.PerHour(-1)}, "none": {}}, Blocked: []string{"ann", ""},
	})
	require.Error(t, err)
	for _, part := range []string{"Exceptions.Overrides: \"\" has an empty key", "Exceptions.Overrides.x-api-key:…[0].RefillRate: -1", "at least one", "Exceptions.Blocked: \"\" has an empty key"} {
		assert.ErrorContains(t, err, part)
	}
	assert.NotContains(t, err.Error(), "secret")
	assert.Equal(t, []string{"eve"}, limiter.Exceptions().Blocked, "after a mistake all is as before")
}

func TestExceptionsAreReportedWithoutKeys(t *testing.T) {
	var lines bytes.Buffer
	var changes [][]string
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(4)}},
		core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))), core.WithPolicyObserver(func(_ core.Policy, now []string) { changes = append(changes, now) })))
	e := raised("ann", core.PerHour(8))
	e.Blocked = []string{"mallory"}
	for range 2 {
		require.NoError(t, limiter.SetExceptions(e))
	}
	assert.Equal(t, [][]string{nil, {"overrides beside the policy: 1 added, 0 removed, 0 changed", "blocked beside the policy: 1 added, 0 removed"}}, changes,
		"the same exceptions again are no change")
	assert.Contains(t, lines.String(), "1 added, 0 removed")
	assert.NotContains(t, lines.String(), "mallory")
	assert.NotContains(t, lines.String(), "ann")
}

// Exceptions, policies and decisions change at once; what is set last is in
// force everywhere.
func TestExceptionsChangeWhileAllElseDoes(t *testing.T) {
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerHour(4))
	held := core.Must(limiter.WithLimits(core.PerHour(3)))
	var all sync.WaitGroup
	for g := range 3 {
		all.Go(func() {
			for i := range 200 {
				assert.NoError(t, limiter.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(4 + g + i)}}))
			}
		})
		all.Go(func() {
			for i := range 200 {
				l := []*core.Limiter{limiter, held}[i%2]
				assert.NoError(t, l.SetExceptions(raised("ann", core.PerHour(100+i))))
				_, err := l.Allow(t.Context(), "ann")
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
	require.NoError(t, limiter.SetExceptions(core.Exceptions{Blocked: []string{"ann"}}))
	for name, l := range map[string]*core.Limiter{"the limiter": limiter, "one that WithLimits returned": held} {
		res, err := l.Allow(t.Context(), "ann")
		wantBlocked(t, res, err, name)
	}
}
