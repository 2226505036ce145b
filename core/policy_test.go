package core_test

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// What SetPolicy changed is said limit by limit, in words, and to whoever asked
// for it.
func TestSetPolicySaysWhatItChanged(t *testing.T) {
	first := core.Policy{
		Name:      "api",
		Limits:    []core.Limit{core.PerMinute(60), core.PerDay(1000).WithName("daily")},
		Overrides: map[string][]core.Limit{"ann": {core.PerMinute(5)}, "bob": {core.PerMinute(5)}},
	}
	edit := func(change func(*core.Policy)) core.Policy {
		p := first
		p.Limits = append([]core.Limit{}, first.Limits...)
		change(&p)
		return p
	}
	for rule, test := range map[string]struct {
		next core.Policy
		want []string
	}{
		"nothing":             {first, nil},
		"a limit":             {edit(func(p *core.Policy) { p.Limits[1] = core.PerDay(2000).WithName("daily") }), []string{`limit "daily": 2000/day, was 1000/day`}},
		"the order of limits": {edit(func(p *core.Policy) { p.Limits[0], p.Limits[1] = p.Limits[1], p.Limits[0] }), []string{"limits: in another order"}},
		"a limit more":        {edit(func(p *core.Policy) { p.Limits = append(p.Limits, core.PerHour(9).WithName("x")) }), []string{`limit "x": 9/h, is new`}},
		"a limit less": {edit(func(p *core.Policy) { p.Limits = p.Limits[:1] }),
			[]string{`limit "api": 60/min, is new`, `limit "api-1m": removed, was 60/min`, `limit "daily": removed, was 1000/day`}},
		"overrides": {edit(func(p *core.Policy) {
			p.Overrides = map[string][]core.Limit{"ann": {core.PerMinute(6)}, "eve": {core.PerMinute(5)}, "joe": {core.PerMinute(5)}}
		}), []string{"overrides: 2 added, 1 removed, 1 changed"}},
		"all else": {edit(func(p *core.Policy) {
			p.OnFailure, p.LocalShare, p.Shadow, p.Headers = core.FailOpen, 0.5, true, core.HeadersNone
		}), []string{"OnFailure: FailOpen, was FailLocal", "LocalShare: 0.5, was 1", "Shadow: true, was false", fmt.Sprintf("Headers: %v, was %v", core.HeadersNone, core.HeadersDefault)}},
		"a share that is the default": {edit(func(p *core.Policy) { p.LocalShare = 1 }), nil},
	} {
		t.Run(rule, func(t *testing.T) {
			var lines bytes.Buffer
			type change struct {
				now     core.Policy
				changes []string
			}
			var reply []change
			l, err := core.NewLimiter(core.NewMemoryStore(), first, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))),
				core.WithPolicyObserver(nil), core.WithPolicyObserver(func(now core.Policy, changes []string) { reply = append(reply, change{now, changes}) }))
			require.NoError(t, err)
			require.Len(t, reply, 1, "NewLimiter reports the limits that are in force")
			assert.Nil(t, reply[0].changes)
			assert.Equal(t, "api-1m", reply[0].now.Limits[0].Name, "each limit has its name")

			require.NoError(t, l.SetPolicy(test.next))
			if test.want == nil {
				assert.Len(t, reply, 1, "no change is reported where there is none")
				assert.Empty(t, lines.String(), "no change is logged where there is none")
				return
			}
			require.Len(t, reply, 2, "each change is reported")
			assert.Equal(t, "api", reply[1].now.Name)
			assert.Equal(t, test.want, reply[1].changes, "what changed, in words")
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
	l, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(1)}},
		core.WithPolicyObserver(func(now core.Policy, _ []string) { mu.Lock(); defer mu.Unlock(); last = now }))
	require.NoError(t, err)
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

func TestExceptionsComeBeforeThePolicy(t *testing.T) {
	long := "x-api-key:" + strings.Repeat("k", 200)
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		now := time.Now()
		policy := core.Policy{
			Name: "api", Limits: []core.Limit{core.PerHour(2)}, Blocked: []string{"blocked"},
			Overrides: map[string][]core.Limit{"own": {core.PerHour(4)}},
		}
		limiter := core.Must(core.NewLimiter(newStore(core.WithClock(func() time.Time { return now })), policy))
		allowed := func(l *core.Limiter, key string, of int) (n int) {
			for range of {
				res, err := l.Allow(t.Context(), key)
				require.NoError(t, err)
				if res.Allowed {
					n++
				}
			}
			return n
		}
		held := core.Must(limiter.WithLimits(core.PerHour(3)))
		assert.Equal(t, 2, allowed(limiter, "ann", 5))
		assert.Equal(t, 4, allowed(limiter, "own", 5))
		assert.Equal(t, 2, allowed(limiter, long, 5))
		assert.Zero(t, allowed(limiter, "blocked", 5))

		require.NoError(t, limiter.SetExceptions(core.Exceptions{
			Overrides: map[string][]core.Limit{"ann": {core.PerHour(5)}, "own": {core.PerHour(6)}, store.Key(long): {core.PerHour(3)}, "blocked": {core.PerHour(2)}},
			Blocked:   []string{"eve", "eve"},
		}))
		assert.Equal(t, 3, allowed(limiter, "ann", 5), "what the override adds is there at once, although a denial was repeated before")
		assert.Equal(t, 2, allowed(limiter, "own", 5), "before an override of the policy")
		assert.Equal(t, 1, allowed(limiter, long, 5), "a key that stores hash")
		assert.Zero(t, allowed(limiter, "blocked", 5), "a block of the policy comes before all")
		assert.Zero(t, allowed(limiter, "eve", 5))
		assert.Equal(t, 2, allowed(limiter, "joe", 5), "others keep the policy's limits")
		assert.Equal(t, policy.Overrides, limiter.Policy().Overrides, "the policy is as before")
		assert.Equal(t, []string{"eve"}, limiter.Exceptions().Blocked)
		assert.Equal(t, []core.Limit{core.PerHour(3)}, limiter.Exceptions().Overrides[store.Key(long)], "keys are as stores have them")

		assert.Zero(t, allowed(held, "eve", 2), "a limiter that WithLimits returned before")
		assert.Zero(t, allowed(core.Must(limiter.WithLimits(core.PerHour(9))), "eve", 2), "and one that it returns now")
		assert.Equal(t, 1, allowed(held, "joe", 5), "its own limits hold for other keys")

		policy.Limits = []core.Limit{core.PerHour(7)}
		require.NoError(t, limiter.SetPolicy(policy))
		assert.Zero(t, allowed(limiter, "eve", 2), "exceptions stay when the policy changes")
		assert.Equal(t, 4, allowed(limiter, "joe", 5))

		require.NoError(t, limiter.SetExceptions(core.Exceptions{}))
		assert.Equal(t, 5, allowed(limiter, "eve", 5), "a block that has ended is not repeated, and took nothing")
		assert.Equal(t, 2, allowed(limiter, "ann", 5), "the policy's limits again: what was used stays used")
		assert.Zero(t, allowed(limiter, "blocked", 5))
		assert.Equal(t, 3, allowed(held, "eve", 0)+allowed(held, "zoe", 5))
	})
}

// What was taken under the policy comes back under an exception, and the other
// way round.
func TestExceptionsLoseNoRefund(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		now := time.Now()
		limiter := limittest.Limiter(t, newStore(core.WithClock(func() time.Time { return now })), "api", core.PerHour(10))
		left := func() int64 {
			res, err := limiter.Peek(t.Context(), "ann")
			require.NoError(t, err)
			return res.Remaining
		}
		held := core.Must(limiter.WithLimits(core.PerHour(10)))
		for _, change := range []core.Exceptions{raised("ann", core.PerHour(100)), {Blocked: []string{"ann"}}, {}, {Blocked: []string{"ann"}}, raised("ann", core.PerHour(10)), {}} {
			before := left()
			res, err := limiter.AllowN(t.Context(), "ann", 4)
			require.NoError(t, err)
			other, err := held.AllowN(t.Context(), "ann", 4)
			require.NoError(t, err)
			require.NoError(t, limiter.SetExceptions(change))
			_ = res.Undo(t.Context())
			_ = other.Undo(t.Context())
			require.NoError(t, limiter.SetExceptions(core.Exceptions{}))
			assert.Equal(t, min(10, before), min(10, left()), "%v", change)
		}
	})
}

// A policy that is set while there is an exception does not remember it.
func TestRefundsComeBackAfterAnExceptionAndAPolicy(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		now := time.Now()
		limiter := limittest.Limiter(t, newStore(core.WithClock(func() time.Time { return now })), "api", core.PerHour(10).WithName("a"))
		res, err := limiter.AllowN(t.Context(), "ann", 4)
		require.NoError(t, err)
		require.NoError(t, limiter.SetExceptions(raised("ann", core.PerHour(20).WithName("a"))))
		require.NoError(t, limiter.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(12).WithName("a")}}))
		require.NoError(t, limiter.SetExceptions(core.Exceptions{}))
		require.NoError(t, res.Undo(t.Context()))
		left, err := limiter.Peek(t.Context(), "ann")
		require.NoError(t, err)
		assert.EqualValues(t, 12, left.Remaining, "what was taken comes back")
	})
}

func TestExceptionsHoldWithoutAStore(t *testing.T) {
	for _, mode := range []core.FailureMode{core.FailLocal, core.FailOpen} {
		limiter := core.Must(core.NewLimiter(&limittest.AwayStore{Err: errors.New("away")},
			core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(4)}, OnFailure: mode, LocalShare: 0.5}))
		e := raised("ann", core.PerHour(8))
		e.Blocked = []string{"eve"}
		require.NoError(t, limiter.SetExceptions(e))
		res, err := limiter.Allow(t.Context(), "eve")
		wantBlocked(t, res, err, mode.String())
		if mode == core.FailLocal {
			res, err = limiter.Allow(t.Context(), "ann")
			require.NoError(t, err)
			assert.EqualValues(t, 3, res.Remaining, "its share of the override")
		}
	}
}

// What is returned or charged while a key is blocked goes to the limits that it
// has without the block, also by a limiter that WithLimits returns meanwhile.
func TestBlocksChangeNoLimits(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		now := time.Now()
		limiter := core.Must(core.NewLimiter(newStore(core.WithClock(func() time.Time { return now })), core.Policy{
			Name: "api", Limits: []core.Limit{core.PerHour(10)}, Overrides: map[string][]core.Limit{"own": {core.PerHour(30)}},
		}))
		tier := func() *core.Limiter { return core.Must(limiter.WithLimits(core.PerHour(20).WithName("gold"))) }
		before := tier()
		require.NoError(t, limiter.SetExceptions(core.Exceptions{Blocked: []string{"ann", "own"}}))
		for name, l := range map[string]*core.Limiter{"before": before, "meanwhile": tier()} {
			res, err := l.Peek(t.Context(), "ann")
			require.NoError(t, err)
			require.NoError(t, l.Debit(t.Context(), "ann", 3))
			after, err := l.Peek(t.Context(), "ann")
			require.NoError(t, err)
			assert.Equal(t, "gold", res.Limits()[0].Limit.Name, "a limiter returned %s", name)
			assert.Equal(t, res.Remaining-3, after.Remaining, "a limiter returned %s", name)
		}
		res, err := limiter.Peek(t.Context(), "own")
		require.NoError(t, err)
		assert.EqualValues(t, 30, res.Remaining, "an override of the policy")
		require.NoError(t, limiter.SetExceptions(core.Exceptions{}))
		res, err = tier().Peek(t.Context(), "ann")
		require.NoError(t, err)
		assert.EqualValues(t, 14, res.Remaining, "both debits are there")
		res, err = limiter.Peek(t.Context(), "ann")
		require.NoError(t, err)
		assert.EqualValues(t, 10, res.Remaining, "and nowhere else")
	})
}

// An exception of one key changes nothing of others: denials that the deny
// cache repeats, and tokens on lease, are of a plan.
func TestExceptionsKeepThePlansOfOtherKeys(t *testing.T) {
	plans := make(map[string]map[*bucket.LimitSet]bool)
	memory := core.NewMemoryStore()
	limiter := core.Must(core.NewLimiter(&watchedStore{Store: memory, see: func(r store.Request) {
		if plans[r.Key()] == nil {
			plans[r.Key()] = make(map[*bucket.LimitSet]bool)
		}
		plans[r.Key()][r.Set] = true
	}}, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(4)}}))
	for i := range 5 {
		e := raised("ann", core.PerDay(8).In(time.FixedZone("here", 3600)))
		e.Overrides[fmt.Sprint("joe", i)] = []core.Limit{core.PerHour(5 + i)}
		e.Blocked = []string{"eve", fmt.Sprint("bob", i)}
		require.NoError(t, limiter.SetExceptions(e))
		for _, key := range []string{"ann", "eve"} {
			_, err := limiter.Allow(t.Context(), key)
			require.NoError(t, err)
		}
	}
	assert.Len(t, plans["ann"], 1, "the override of a key that has not changed")
	assert.Len(t, plans["eve"], 1, "a block")
}

// watchedStore sees requests.
type watchedStore struct {
	core.Store
	see func(store.Request)
}

func (s *watchedStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	s.see(r)
	return s.Store.Do(ctx, r)
}

// A key that no store has as it is stands for what stores have.
func TestExceptionsOfLongKeysHold(t *testing.T) {
	long := "x-api-key:" + strings.Repeat("k\n", 5000)
	for name, key := range map[string]string{"as clients have it": long, "as stores have it": store.Key(long)} {
		limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerHour(4))
		e := raised(key, core.PerHour(8))
		e.Blocked = []string{"sha256:x", key}
		require.NoError(t, limiter.SetExceptions(e))
		for _, blocked := range []string{long, "sha256:x"} {
			res, err := limiter.Allow(t.Context(), blocked)
			wantBlocked(t, res, err, "a key "+name)
		}
		assert.EqualValues(t, 8, limiter.Limits(long)[0].Capacity, "a key %s", name)
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
	_, err := limiter.Allow(t.Context(), "ann")
	require.NoError(t, err)
	require.NoError(t, limiter.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{units.WithName("other")}}), "the policy never counted requests")
}

func TestBlocksLastLongerThanOverrides(t *testing.T) {
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerHour(4))
	e := raised("ann", core.PerHour(8))
	e.Blocked = []string{"ann"}
	require.NoError(t, limiter.SetExceptions(e))
	res, err := limiter.Allow(t.Context(), "ann")
	wantBlocked(t, res, err, "a block comes before an override")
	assert.EqualValues(t, 8, res.Limits()[0].Limit.Capacity, "the limits shown are those of the override")
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
