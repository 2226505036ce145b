package core_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

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
