package core_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// watched returns a limiter and the list of observations that its observer
// receives.
func watched(t *testing.T, store core.Store, policy core.Policy, options ...core.LimiterOption) (*core.Limiter, *[]core.Observation) {
	t.Helper()
	var reply []core.Observation
	options = append(options, core.WithObserver(func(_ context.Context, o core.Observation) { reply = append(reply, o) }))
	l, err := core.NewLimiter(store, policy, options...)
	require.NoError(t, err)
	return l, &reply
}

// said returns observations without the fields that differ from run to run.
func said(reply []core.Observation) (list []core.Observation) {
	for _, o := range reply {
		o.Latency, o.Capacity, o.Err = 0, 0, nil
		list = append(list, o)
	}
	return list
}

func TestObserverReceivesEachDecision(t *testing.T) {
	ctx := context.Background()
	limits := []core.Limit{core.PerDay(2).WithName("few"), core.PerDay(100)}
	l, reply := watched(t, core.NewMemoryStore(), core.Policy{Name: "api", Limits: limits})
	for _, cost := range []int64{1, 1, 1} {
		_, err := l.AllowN(ctx, "k", cost)
		require.NoError(t, err)
	}
	_, err := l.Reserve(ctx, "k", 1)
	require.NoError(t, err)
	allowed := core.Observation{Policy: "api", Limit: "few", Unit: core.Requests, Outcome: core.OutcomeAllowed, Cost: 1, Key: "k"}
	denied := allowed
	denied.Outcome = core.OutcomeDenied
	assert.Equal(t, []core.Observation{allowed, allowed, denied, allowed}, said(*reply))
	for _, o := range *reply {
		assert.Positive(t, o.Latency)
		assert.NoError(t, o.Err)
	}

	*reply = nil
	_, err = l.Peek(ctx, "k")
	require.NoError(t, err)
	require.NoError(t, l.Refund(ctx, "k", 1))
	require.NoError(t, l.Reset(ctx, "k"))
	_, err = l.AllowN(ctx, "k", -1)
	require.ErrorIs(t, err, core.ErrCost)
	assert.Empty(t, *reply, "peeks, refunds, resets and mistakes are no decisions")

	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err = l.Allow(gone, "k")
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, *reply, 1)
	assert.Equal(t, core.OutcomeError, (*reply)[0].Outcome)
	assert.ErrorIs(t, (*reply)[0].Err, context.Canceled)
}

func TestObservationSourceIsWhoDecided(t *testing.T) {
	ctx := context.Background()
	t.Run("deny cache and lease", func(t *testing.T) {
		s := redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(20*time.Second), redisstore.WithLease(10),
			core.WithClock(limittest.NewClock().Now)) // stands still, so that the key is busy on a slow machine too
		l, reply := watched(t, s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(100)}})
		for range 110 {
			_, err := l.Allow(ctx, "k")
			require.NoError(t, err)
		}
		count := map[core.Source]int{}
		for _, o := range *reply {
			count[o.Source]++
		}
		assert.Positive(t, count[core.FromStore])
		assert.Positive(t, count[core.FromLease])
		assert.Positive(t, count[core.FromDenyCache])
		stats := s.Stats()
		assert.Equal(t, int64(count[core.FromLease]), stats.Leased)
		assert.Equal(t, int64(count[core.FromDenyCache]), stats.Denied)
		assert.Positive(t, stats.Calls)
		assert.Equal(t, storestats.BreakerClosed, stats.Breaker)
		sum := int64(0)
		for _, n := range stats.Batches {
			sum += n
		}
		assert.Equal(t, stats.Calls, sum)
		assert.GreaterOrEqual(t, stats.Decisions, stats.Calls)
	})
	failures := map[core.FailureMode]core.Observation{
		core.FailLocal:  {Limit: "api", Unit: core.Requests, Source: core.FromFallback},
		core.FailOpen:   {Source: core.FromFailOpen},
		core.FailClosed: {Outcome: core.OutcomeError},
	}
	for mode, want := range failures {
		t.Run(mode.String(), func(t *testing.T) {
			away := &limittest.AwayStore{Err: errors.New("away")}
			l, reply := watched(t, away, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(2)}, OnFailure: mode})
			_, _ = l.Allow(ctx, "k")
			want.Policy, want.Cost, want.Key = "api", 1, "k"
			assert.Equal(t, []core.Observation{want}, said(*reply))
			assert.ErrorIs(t, (*reply)[0].Err, away.Err)
		})
	}
}

func TestAllObserversAreCalledInOrder(t *testing.T) {
	var order []string
	observer := func(name string) core.LimiterOption {
		return core.WithObserver(func(_ context.Context, o core.Observation) { order = append(order, name+o.Key) })
	}
	l, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(2)}},
		observer("a"), core.WithObserver(nil), nil, observer("b"))
	require.NoError(t, err)
	_, err = l.Allow(context.Background(), "-k")
	require.NoError(t, err)
	tier, err := l.WithLimits(core.PerDay(3))
	require.NoError(t, err)
	_, err = tier.Allow(context.Background(), "-tier")
	require.NoError(t, err)
	assert.Equal(t, []string{"a-k", "b-k", "a-tier", "b-tier"}, order)
}

// A client may choose its cost, so observers that add costs up need the most
// that a request can take.
func TestObservationCapacityIsTheSmallestCapacity(t *testing.T) {
	ctx := context.Background()
	few := []core.Limit{core.PerDay(100), core.PerHour(20)}
	for name, test := range map[string]struct {
		store  core.Store
		policy core.Policy
		want   int64
	}{
		"decided by the store":    {core.NewMemoryStore(), core.Policy{Name: "api", Limits: few}, 20},
		"decided by the fallback": {&limittest.AwayStore{Err: errors.New("away")}, core.Policy{Name: "api", Limits: few, LocalShare: 0.25}, 20},
		"failed open":             {&limittest.AwayStore{Err: errors.New("away")}, core.Policy{Name: "api", Limits: few, OnFailure: core.FailOpen}, 20},
		"failed closed":           {&limittest.AwayStore{Err: errors.New("away")}, core.Policy{Name: "api", Limits: few, OnFailure: core.FailClosed}, 20},
	} {
		l, reply := watched(t, test.store, test.policy)
		_, _ = l.AllowN(ctx, "k", math.MaxInt64)
		require.Len(t, *reply, 1, name)
		assert.Equal(t, test.want, (*reply)[0].Capacity, name)
		assert.Equal(t, int64(math.MaxInt64), (*reply)[0].Cost, name)
	}
}

func TestObservedKeysAreNotHashed(t *testing.T) {
	long := strings.Repeat("k", 200)
	l, reply := watched(t, core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(2)}})
	_, err := l.Allow(context.Background(), long)
	require.NoError(t, err)
	assert.Equal(t, long, (*reply)[0].Key)
}

func TestDecisionWithoutObserverCostsNoAllocation(t *testing.T) {
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerSecond(1_000_000))
	ctx := context.Background()
	_, _ = l.Allow(ctx, "k")
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = l.Allow(ctx, "k") }))
}

func TestLoggerLogsDenials(t *testing.T) {
	ctx := context.Background()
	var lines bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}, core.WithLogger(logger))
	require.NoError(t, err)
	for range 2 {
		_, err := l.Allow(ctx, "ip:192.0.2.1")
		require.NoError(t, err)
	}
	assert.Equal(t, 1, strings.Count(lines.String(), "\n"), "only the denial: %s", lines.String())
	assert.Contains(t, lines.String(), `level=DEBUG msg="ratelimit: denied" policy=api limit=api cost=1 retry_after=2`)
	assert.NotContains(t, lines.String(), "192.0.2.1", "keys can be personal data")

	lines.Reset()
	require.NoError(t, l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}, Shadow: true}))
	_, err = l.Allow(ctx, "ip:192.0.2.1")
	require.NoError(t, err)
	assert.Contains(t, lines.String(), `msg="ratelimit: shadow-denied"`)
}

func TestLoggerLogsOutageAndRecovery(t *testing.T) {
	server := redistest.Start(t)
	var lines logtest.Buffer
	s := redisstore.New(server.Client(t), redisstore.WithBreaker(1, time.Millisecond), redisstore.WithTimeout(2*time.Second), core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	l := limittest.Limiter(t, s, "api", core.PerDay(1000))
	ctx := context.Background()
	server.Kill()
	_, err := l.Allow(ctx, "k")
	require.ErrorIs(t, err, core.ErrUnavailable)
	assert.Contains(t, lines.String(), "level=WARN msg=\"ratelimit: Redis does not answer")
	stats := s.Stats()
	assert.Equal(t, int64(1), stats.Opened)
	assert.Positive(t, stats.Away)
	assert.NotEqual(t, storestats.BreakerClosed, stats.Breaker)
	server.Restart(t)
	assert.Eventually(t, func() bool { _, err := l.Allow(ctx, "k"); return err == nil }, 20*time.Second, time.Millisecond)
	assert.Eventually(t, func() bool {
		_, _ = l.Peek(ctx, "k")
		return strings.Contains(lines.String(), "level=WARN msg=\"ratelimit: Redis is back\"")
	}, 20*time.Second, 10*time.Millisecond, "all decisions have come back for a second")
	after := s.Stats()
	assert.Equal(t, storestats.BreakerClosed, after.Breaker)
	assert.Greater(t, after.Away, stats.Away)
	assert.Equal(t, after.Away, s.Stats().Away, "Away stops when the outage ends")
}

// failing is a store that fails after some calls.
type failing struct {
	core.Store

	good int
}

func (f *failing) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if f.good--; f.good < 0 {
		return store.Answer{}, errors.New("away")
	}
	return f.Store.Do(ctx, r)
}

func TestObserverReceivesFailedSettlements(t *testing.T) {
	ctx := context.Background()
	words := core.PerDay(100).WithName("words")
	words.Unit = "words"
	l, reply := watched(t, &failing{core.NewMemoryStore(), 1}, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(9), words}})
	res, err := l.AllowUnits(ctx, "k", core.Units{"words": 50})
	require.NoError(t, err)

	*reply = nil
	require.ErrorIs(t, res.Settle(ctx, core.Units{"words": 40}), core.ErrUnavailable)
	require.ErrorIs(t, l.Debit(ctx, "k", 1), core.ErrUnavailable)
	failed := core.Observation{Policy: "api", Outcome: core.OutcomeUnsettled, Key: "k"}
	assert.Equal(t, []core.Observation{failed, failed}, said(*reply))
	for _, o := range *reply {
		require.ErrorIs(t, o.Err, core.ErrUnavailable)
		assert.Positive(t, o.Latency)
	}

	*reply = nil
	gone, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, res.Settle(gone, core.Units{"words": 40}), context.Canceled)
	require.ErrorIs(t, l.Debit(gone, "k", 1), context.Canceled)
	require.ErrorIs(t, l.Debit(ctx, "", 1), core.ErrNoKey)
	require.ErrorIs(t, res.Settle(ctx, core.Units{"words": 40}), core.ErrSettled, "the store may have settled it")
	assert.Empty(t, *reply, "an ended context is the caller's own, and what took nothing needs no settlement")

	require.ErrorIs(t, res.Settle(ctx, core.Units{"words": -1}), core.ErrCost)
	require.ErrorIs(t, res.Settle(ctx, core.Units{"pages": 1}), core.ErrUnit)
	require.ErrorIs(t, l.Debit(ctx, "k", -1), core.ErrCost)
	assert.Equal(t, []core.Observation{failed, failed, failed}, said(*reply), "nothing was charged, whatever the reason")
	assert.Equal(t, "unsettled", core.OutcomeUnsettled.String())
}

func TestSuccessfulSettlementsAreNotObserved(t *testing.T) {
	ctx := context.Background()
	l, reply := watched(t, core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(9)}})
	res, err := l.Allow(ctx, "k")
	require.NoError(t, err)
	require.NoError(t, res.Settle(ctx, core.Units{core.Requests: 3}))
	require.NoError(t, l.Debit(ctx, "k", 1))
	assert.Len(t, *reply, 1, "the decision")
}

func TestObservationUnitIsThatOfItsLimit(t *testing.T) {
	ctx := context.Background()
	words := core.PerDay(3).WithName("words")
	words.Unit = "words"
	l, reply := watched(t, core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(9).WithName("calls"), words}})
	_, err := l.AllowUnits(ctx, "k", core.Units{"words": 4})
	require.NoError(t, err)
	_, err = l.AllowN(ctx, "k", 8)
	require.NoError(t, err)
	_, err = l.AllowUnits(ctx, "k", core.Units{"pages": 1})
	require.ErrorIs(t, err, core.ErrUnit)
	assert.Equal(t, []core.Observation{
		{Policy: "api", Limit: "words", Unit: "words", Outcome: core.OutcomeDenied, Cost: 1, Key: "k"},
		{Policy: "api", Limit: "calls", Unit: core.Requests, Outcome: core.OutcomeAllowed, Cost: 8, Key: "k"},
	}, said(*reply), "a unit that no limit counts is a mistake and no decision")
}

func TestObserverReceivesJointDecisions(t *testing.T) {
	ctx := context.Background()
	store := core.NewMemoryStore()
	one, toldOne := watched(t, store, core.Policy{Name: "one", Limits: []core.Limit{core.PerDay(1)}})
	two, toldTwo := watched(t, &failing{store, 2}, core.Policy{Name: "two", Limits: []core.Limit{core.PerDay(9)}, OnFailure: core.FailClosed})
	for range 2 {
		_, err := core.AllowTogether(ctx, core.Charge{Limiter: one, Key: "k"}, core.Charge{Limiter: two, Key: "k"})
		require.NoError(t, err)
	}
	allowed := core.Observation{Policy: "one", Limit: "one", Unit: core.Requests, Cost: 1, Key: "k"}
	denied := allowed
	denied.Outcome = core.OutcomeDenied
	assert.Equal(t, []core.Observation{allowed, denied}, said(*toldOne))
	allowed.Policy, allowed.Limit = "two", "two"
	assert.Equal(t, []core.Observation{allowed}, said(*toldTwo), "a limiter that took nothing for another's sake decided nothing")

	*toldOne, *toldTwo = nil, nil
	_, err := core.AllowTogether(ctx, core.Charge{Limiter: one, Key: "other"}, core.Charge{Limiter: two, Key: "other"})
	require.ErrorIs(t, err, core.ErrUnavailable)
	assert.Empty(t, *toldOne)
	require.Len(t, *toldTwo, 1)
	assert.Equal(t, core.OutcomeError, (*toldTwo)[0].Outcome, "who could not decide")
	res, err := one.Peek(ctx, "other")
	require.NoError(t, err)
	assert.Equal(t, int64(1), res.Remaining, "what was taken came back")
}

// slotsSeen sums up what an observer is told of slots.
type slotsSeen struct {
	mu    sync.Mutex
	inUse int64
	all   []core.Observation
}

func (s *slotsSeen) observe(_ context.Context, o core.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse += o.Slots
	s.all = append(s.all, o)
}

func (s *slotsSeen) want(t *testing.T, n int64, rule string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, n, s.inUse, rule)
}

func TestObserversSeeSlotsInUse(t *testing.T) {
	ctx := context.Background()
	for _, test := range []struct {
		rule string
		do   func(t *testing.T, l *core.Limiter, s *slotsSeen)
	}{
		{"slots are in use until they are released, once", func(t *testing.T, l *core.Limiter, s *slotsSeen) {
			first, second := allow(t, l, 2), allow(t, l, 1)
			s.want(t, 3, "2 slots and 1")
			require.NoError(t, first.Release(ctx))
			require.NoError(t, first.Release(ctx))
			s.want(t, 1, "2 are released, whoever releases them again")
			require.NoError(t, second.Undo(ctx))
			s.want(t, 0, "an Undo releases too")
			time.Sleep(time.Hour)
			s.want(t, 0, "MaxHold frees nothing that was released")
		}},
		{"a denial and a peek use none", func(t *testing.T, l *core.Limiter, s *slotsSeen) {
			allow(t, l, 5)
			res, err := l.Allow(ctx, "k")
			require.NoError(t, err)
			require.False(t, res.Allowed)
			_, err = l.Peek(ctx, "k")
			require.NoError(t, err)
			s.want(t, 5, "those of the request that was allowed")
		}},
		{"slots that nobody releases are in use until MaxHold is over", func(t *testing.T, l *core.Limiter, s *slotsSeen) {
			allow(t, l, 2)
			time.Sleep(time.Minute - time.Millisecond)
			s.want(t, 2, "before MaxHold is over")
			time.Sleep(2 * time.Millisecond)
			s.want(t, 0, "after it is over")
		}},
		{"Hold keeps slots in use, and takes again what was lost", func(t *testing.T, l *core.Limiter, s *slotsSeen) {
			res := allow(t, l, 2)
			for range 5 {
				time.Sleep(40 * time.Second)
				require.NoError(t, res.Hold(ctx))
				s.want(t, 2, "slots that are held")
			}
			time.Sleep(2 * time.Minute)
			s.want(t, 0, "slots that are not held any more")
			require.NoError(t, res.Hold(ctx))
			s.want(t, 2, "slots that were free, and are held again")
			time.Sleep(2 * time.Minute)
			other := allow(t, l, 4)
			require.ErrorIs(t, res.Hold(ctx), core.ErrExpired)
			s.want(t, 4, "slots that others have")
			require.NoError(t, other.Release(ctx))
			require.NoError(t, res.Release(ctx))
			s.want(t, 0, "at the end")
		}},
		{"charges that are decided together count their slots, or none", func(t *testing.T, l *core.Limiter, s *slotsSeen) {
			one := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "one", Limits: []core.Limit{core.PerHour(1)}}))
			charges := []core.Charge{{Limiter: l, Key: "k"}, {Limiter: l, Key: "k", Cost: 2}, {Limiter: one, Key: "k"}}
			joint, err := core.AllowTogether(ctx, charges...)
			require.NoError(t, err)
			require.True(t, joint.Allowed)
			s.want(t, 3, "those of both charges")
			denied, err := core.AllowTogether(ctx, charges...)
			require.NoError(t, err)
			require.False(t, denied.Allowed)
			s.want(t, 3, "none for a request that is denied by another limit")
			require.NoError(t, joint.Release(ctx))
			s.want(t, 0, "after the release")
		}},
		{"changes are no decisions", func(t *testing.T, l *core.Limiter, s *slotsSeen) {
			res := allow(t, l, 2)
			require.NoError(t, res.Release(ctx))
			s.want(t, 0, "after the release")
			require.Len(t, s.all, 2)
			assert.Equal(t, core.Observation{Policy: "exports", Outcome: core.OutcomeSlots, Slots: -2, Key: "k"}, s.all[1])
			assert.Equal(t, "slots", s.all[1].Outcome.String())
			assert.Equal(t, int64(2), s.all[0].Slots)
			assert.Equal(t, core.OutcomeAllowed, s.all[0].Outcome)
		}},
	} {
		t.Run(test.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slotsSeen{}
				policy := core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(5), core.PerDay(100).WithUnit("tokens").WithMaxHold(time.Second)}}
				l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy, core.WithObserver(s.observe)))
				test.do(t, l, s)
				time.Sleep(time.Hour)
			})
		})
	}
}

// allow takes slots of the key k.
func allow(t *testing.T, l *core.Limiter, slots int64) *core.Result {
	t.Helper()
	res, err := l.AllowN(context.Background(), "k", slots)
	require.NoError(t, err)
	require.True(t, res.Allowed)
	return &res
}
func TestObserversGetTheKey(t *testing.T) {
	var keys []string
	slots := core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(1)}}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), slots, core.WithObserver(func(_ context.Context, o core.Observation) { keys = append(keys, strings.Clone(o.Key)) })))
	reused := []byte("ann")
	res, err := l.Allow(t.Context(), unsafe.String(unsafe.SliceData(reused), len(reused)))
	require.NoError(t, err)
	copy(reused, "bob") // as a framework does with its buffers when a request is over
	require.NoError(t, res.Release(t.Context()))
	assert.Equal(t, []string{"ann", "ann"}, keys, "of a decision, and of its slots, which are released later")
}
