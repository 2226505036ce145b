package core_test

import (
	"bytes"
	"context"
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
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// watched returns a limiter and the list of observations that its observer
// receives.
func watched(t *testing.T, store core.Store, policy core.Policy, options ...core.LimiterOption) (*core.Limiter, *[]core.Observation) {
	t.Helper()
	var reply []core.Observation
	options = append(options, core.WithObserver(func(_ context.Context, o core.Observation) { reply = append(reply, o) }))
	return core.Must(core.NewLimiter(store, policy, options...)), &reply
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
	ctx := t.Context()
	limits := []core.Limit{core.PerDay(2).WithName("few"), core.PerDay(100)}
	l, reply := watched(t, core.NewMemoryStore(), core.Policy{Name: "api", Limits: limits})
	for range 3 {
		core.Must(l.Allow(ctx, "k"))
	}
	res := core.Must(l.Reserve(ctx, "k", 1))
	allowed := core.Observation{Policy: "api", Limit: "few", Unit: core.Requests, Outcome: core.OutcomeAllowed, Cost: 1, Key: "k"}
	denied := allowed
	denied.Outcome = core.OutcomeDenied
	assert.Equal(t, []core.Observation{allowed, allowed, denied, allowed}, said(*reply))
	for _, o := range *reply {
		assert.Positive(t, o.Latency)
		assert.NoError(t, o.Err)
	}

	*reply = nil
	core.Must(l.Peek(ctx, "k"))
	require.NoError(t, l.Refund(ctx, "k", 1))
	require.NoError(t, res.Settle(ctx, core.Units{core.Requests: 3}))
	require.NoError(t, l.Debit(ctx, "k", 1))
	require.NoError(t, l.Reset(ctx, "k"))
	_, err := l.AllowN(ctx, "k", -1)
	require.ErrorIs(t, err, core.ErrCost)
	_, err = l.AllowUnits(ctx, "k", core.Units{"pages": 1})
	require.ErrorIs(t, err, core.ErrUnit)
	assert.Empty(t, *reply, "peeks, refunds, settlements, debits, resets and mistakes are no decisions")

	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err = l.Allow(gone, "k")
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, *reply, 1)
	assert.Equal(t, core.OutcomeError, (*reply)[0].Outcome)
	assert.ErrorIs(t, (*reply)[0].Err, context.Canceled)
}

func TestObservationSourceIsTheDenyCacheOrALease(t *testing.T) {
	s := redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(20*time.Second), redisstore.WithLease(10),
		core.WithClock(limittest.NewClock().Now)) // stands still, so that the key is busy on a slow machine too
	l, reply := watched(t, s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(100)}})
	for range 110 {
		core.Must(l.Allow(t.Context(), "k"))
	}
	count := map[core.Source]int{}
	for _, o := range *reply {
		count[o.Source]++
	}
	for _, source := range []core.Source{core.FromStore, core.FromLease, core.FromDenyCache} {
		assert.Positive(t, count[source], source)
	}
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
}

// A client may choose its cost, so observers that add costs up need the most
// that a request can take: the smallest capacity.
func TestObservationOfADecisionWithoutAStore(t *testing.T) {
	few := []core.Limit{core.PerDay(100), core.PerHour(20).WithName("few")}
	for mode, want := range map[core.FailureMode]core.Observation{
		core.FailLocal:  {Limit: "few", Unit: core.Requests, Outcome: core.OutcomeDenied, Source: core.FromFallback},
		core.FailOpen:   {Source: core.FromFailOpen},
		core.FailClosed: {Outcome: core.OutcomeError},
	} {
		away := newAskedStore()
		away.down.Store(true)
		l, reply := watched(t, away, core.Policy{Name: "api", Limits: few, LocalShare: 0.25, OnFailure: mode})
		_, _ = l.AllowN(t.Context(), "k", math.MaxInt64)
		want.Policy, want.Cost, want.Key = "api", math.MaxInt64, "k"
		assert.Equal(t, []core.Observation{want}, said(*reply), mode)
		assert.EqualValues(t, 20, (*reply)[0].Capacity, mode)
		assert.ErrorContains(t, (*reply)[0].Err, "down", mode)
	}
	l, reply := watched(t, core.NewMemoryStore(), core.Policy{Name: "api", Limits: few})
	core.Must(l.Allow(t.Context(), "k"))
	assert.EqualValues(t, 20, (*reply)[0].Capacity, "decided by the store")
}

func TestAllObserversAreCalledInOrder(t *testing.T) {
	var order []string
	observer := func(name string) core.LimiterOption {
		return core.WithObserver(func(_ context.Context, o core.Observation) { order = append(order, name+o.Key) })
	}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(2)}},
		observer("a"), core.WithObserver(nil), nil, observer("b")))
	core.Must(l.Allow(t.Context(), "-k"))
	core.Must(core.Must(l.WithLimits(core.PerDay(3))).Allow(t.Context(), "-tier"))
	assert.Equal(t, []string{"a-k", "b-k", "a-tier", "b-tier"}, order)
}

func TestLoggerLogsDenials(t *testing.T) {
	var lines bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy, core.WithLogger(logger)))
	for range 2 {
		core.Must(l.Allow(t.Context(), "ip:192.0.2.1"))
	}
	assert.Equal(t, 1, strings.Count(lines.String(), "\n"), "only the denial: %s", lines.String())
	assert.Contains(t, lines.String(), `level=DEBUG msg="ratelimit: denied" policy=api limit=api cost=1 retry_after=2`)
	assert.NotContains(t, lines.String(), "192.0.2.1", "keys can be personal data")

	lines.Reset()
	policy.Shadow = true
	require.NoError(t, l.SetPolicy(policy))
	core.Must(l.Allow(t.Context(), "ip:192.0.2.1"))
	assert.Contains(t, lines.String(), `msg="ratelimit: shadow-denied"`)
}

func TestObserverReceivesFailedSettlements(t *testing.T) {
	ctx, s := t.Context(), newAskedStore()
	l, reply := watched(t, s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(9), core.PerDay(100).WithName("words").WithUnit("words")}})
	res := core.Must(l.AllowUnits(ctx, "k", core.Units{"words": 50}))
	s.down.Store(true)

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

func TestObservationUnitIsThatOfItsLimit(t *testing.T) {
	limits := []core.Limit{core.PerDay(9).WithName("calls"), core.PerDay(3).WithName("words").WithUnit("words")}
	l, reply := watched(t, core.NewMemoryStore(), core.Policy{Name: "api", Limits: limits})
	core.Must(l.AllowUnits(t.Context(), "k", core.Units{"words": 4}))
	core.Must(l.AllowN(t.Context(), "k", 8))
	assert.Equal(t, []core.Observation{
		{Policy: "api", Limit: "words", Unit: "words", Outcome: core.OutcomeDenied, Cost: 1, Key: "k"},
		{Policy: "api", Limit: "calls", Unit: core.Requests, Outcome: core.OutcomeAllowed, Cost: 8, Key: "k"},
	}, said(*reply))
}

func TestObserverReceivesJointDecisions(t *testing.T) {
	store, second := core.NewMemoryStore(), newAskedStore()
	one, ofOne := watched(t, store, core.Policy{Name: "one", Limits: []core.Limit{core.PerDay(1)}})
	two, ofTwo := watched(t, second, core.Policy{Name: "two", Limits: []core.Limit{core.PerDay(9)}, OnFailure: core.FailClosed})
	both := func(key string) []core.Charge {
		return []core.Charge{{Limiter: one, Key: key}, {Limiter: two, Key: key}}
	}
	for range 2 {
		core.Must(core.AllowTogether(t.Context(), both("k")...))
	}
	allowed := core.Observation{Policy: "one", Limit: "one", Unit: core.Requests, Cost: 1, Key: "k"}
	denied := allowed
	denied.Outcome = core.OutcomeDenied
	assert.Equal(t, []core.Observation{allowed, denied}, said(*ofOne))
	allowed.Policy, allowed.Limit = "two", "two"
	assert.Equal(t, []core.Observation{allowed}, said(*ofTwo), "a limiter that took nothing for another's sake decided nothing")

	*ofOne, *ofTwo = nil, nil
	second.down.Store(true)
	_, err := core.AllowTogether(t.Context(), both("other")...)
	require.ErrorIs(t, err, core.ErrUnavailable)
	assert.Empty(t, *ofOne)
	require.Len(t, *ofTwo, 1)
	assert.Equal(t, core.OutcomeError, (*ofTwo)[0].Outcome, "who could not decide")
	assert.EqualValues(t, 1, limittest.Left(t, one, "other"), "what was taken came back")
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
			res := core.Must(l.Allow(ctx, "k"))
			require.False(t, res.Allowed)
			core.Must(l.Peek(ctx, "k"))
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
			joint := core.Must(core.AllowTogether(ctx, charges...))
			require.True(t, joint.Allowed)
			s.want(t, 3, "those of both charges")
			denied := core.Must(core.AllowTogether(ctx, charges...))
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

func TestObserversGetTheKey(t *testing.T) {
	slots := core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(1)}}
	for _, key := range []string{"ann", strings.Repeat("k", 200)} { // stores hash the longer one
		var keys []string
		l := core.Must(core.NewLimiter(core.NewMemoryStore(), slots, core.WithObserver(func(_ context.Context, o core.Observation) { keys = append(keys, strings.Clone(o.Key)) })))
		reused := []byte(key)
		res := core.Must(l.Allow(t.Context(), unsafe.String(unsafe.SliceData(reused), len(reused))))
		copy(reused, "bob") // as a framework does with its buffers when a request is over
		require.NoError(t, res.Release(t.Context()))
		assert.Equal(t, []string{key, key}, keys, "of a decision, and of its slots, which are released later")
	}
}
