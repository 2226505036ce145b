package middleware_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// slotStore counts what is sent for slots.
type slotStore struct {
	core.Store
	ends, holds atomic.Int64
}

func (s *slotStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	switch {
	case r.Action == bucket.Charge && r.Ends != nil:
		s.ends.Add(1)
	case r.Action == bucket.Extend:
		s.holds.Add(1)
	}
	return s.Store.Do(ctx, r)
}

// exporting is a middleware of one slot, for requests of ann.
type exporting struct {
	t       *testing.T
	store   *slotStore
	limiter *core.Limiter
	engine  *middleware.Engine[*call]
}

func newExporting(t *testing.T, maxHold time.Duration) *exporting {
	s := &slotStore{Store: core.NewMemoryStore()}
	limiter := core.Must(core.NewLimiter(s, core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(1).WithMaxHold(maxHold)}}))
	return &exporting{t, s, limiter, middleware.New(limiter, byUser, middleware.Options[*call]{}, middleware.Protocol[*call]{})}
}

// begin begins a request, which finds the slot free.
func (e *exporting) begin() (*call, middleware.Admission) {
	e.t.Helper()
	c := &call{ctx: e.t.Context(), user: "ann"}
	a := e.engine.Begin(c, c)
	require.Equal(e.t, middleware.Allowed, a.Verdict, "the slot is free for the request")
	require.NotNil(e.t, a.Dropped(), "the request has slots")
	require.True(e.t, e.engine.WantsEnd(&a))
	require.True(e.t, e.engine.WantsOver(&a))
	return c, a
}

// wantFree checks whether the slot is free, after all that is under way.
func (e *exporting) wantFree(free int64, why string) {
	e.t.Helper()
	synctest.Wait()
	key, err := byUser(&call{user: "ann"})
	require.NoError(e.t, err)
	res, err := e.limiter.Peek(context.Background(), key)
	require.NoError(e.t, err)
	require.Equal(e.t, free, res.Remaining, why)
}

func TestASlotIsHeldUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExporting(t, time.Minute)
		c, a := e.begin()
		for range 100 {
			time.Sleep(17 * time.Second)
			e.wantFree(0, "the slot is taken as long as the request goes on")
		}
		assert.Greater(t, e.store.holds.Load(), int64(70), "the premise: it was held for longer")
		e.engine.End(c, &a, 0)
		e.wantFree(1, "the slot is free after the end")
		held := e.store.holds.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, held, e.store.holds.Load(), "nothing is held after the end")
		e.engine.End(c, &a, 0)
		synctest.Wait()
		assert.EqualValues(t, 1, e.store.ends.Load(), "a release is sent once")
	})
}

func TestASlotIsTheAppsAfterHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExporting(t, time.Minute)
		c, a := e.begin()
		res, ok := middleware.FromContext(c.Decision())
		require.True(t, ok)
		require.NoError(t, res.Hold(t.Context()))
		time.Sleep(10 * time.Minute)
		e.wantFree(0, "the middleware holds the slot until the handler returns")
		e.engine.End(c, &a, 0)
		held := e.store.holds.Load()
		for range 5 {
			time.Sleep(50 * time.Second)
			require.NoError(t, res.Hold(t.Context()))
			e.wantFree(0, "the app holds the slot")
		}
		assert.Equal(t, held+5, e.store.holds.Load(), "the middleware holds it no longer")
		require.NoError(t, res.Release(t.Context()))
		e.wantFree(1, "the app has released the slot")

		c, a = e.begin()
		res, _ = middleware.FromContext(c.Decision())
		require.NoError(t, res.Hold(t.Context()))
		e.engine.End(c, &a, 0)
		time.Sleep(59 * time.Second)
		e.wantFree(0, "nothing is released when the handler returns")
		time.Sleep(2 * time.Second)
		e.wantFree(1, "what the app forgets comes back after MaxHold")
		assert.EqualValues(t, 1, e.store.ends.Load(), "the middleware sends no release")
	})
}

func TestASlotOfADroppedRequestIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExporting(t, time.Minute)
		c, a := e.begin()
		a.Dropped()()
		e.wantFree(1, "the slot is released")
		e.engine.End(c, &a, 0)
		a.Dropped()()
		synctest.Wait()
		assert.EqualValues(t, 1, e.store.ends.Load(), "a release is sent once")
		assert.Nil(t, (&middleware.Admission{}).Dropped(), "a request without slots has none to release")
	})
}

func TestASlotThatTheHandlerReleasesIsHeldNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExporting(t, time.Minute)
		c, a := e.begin()
		res, _ := middleware.FromContext(c.Decision())
		require.NoError(t, res.Release(t.Context()))
		e.wantFree(1, "the handler has released the slot")
		time.Sleep(time.Hour)
		e.engine.End(c, &a, 0)
		synctest.Wait()
		assert.Zero(t, e.store.holds.Load(), "nothing is held for longer after the release")
		assert.EqualValues(t, 1, e.store.ends.Load(), "a release is sent once")
	})
}

func TestDecisionsInHandlersHoldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExporting(t, time.Minute)
		c := &call{ctx: t.Context(), user: "ann"}
		key, err := byUser(c)
		require.NoError(t, err)
		in := middleware.InHandler(e.limiter, key, middleware.Protocol[*call]{})
		a := in.Begin(c, c)
		require.Equal(t, middleware.Allowed, a.Verdict)
		assert.Nil(t, a.Dropped(), "the handler releases")
		in.End(c, &a, 0)
		e.wantFree(0, "the slot is taken until the handler releases it")
		res := a.Result()
		require.NoError(t, res.Release(t.Context()))
		e.wantFree(1, "the handler has released it")
	})
}

// Many requests end while their slots are being held for longer, by a timer
// that is due all the time. Run it with -race.
func TestEndsWhileSlotsAreHeld(t *testing.T) {
	const requests = 200
	s := &slotStore{Store: core.NewMemoryStore()}
	limiter := core.Must(core.NewLimiter(s, core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(requests).WithMaxHold(time.Millisecond)}}))
	engine := middleware.New(limiter, byUser, middleware.Options[*call]{}, middleware.Protocol[*call]{})
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			c := &call{ctx: context.Background(), user: "ann"}
			a := engine.Begin(c, c)
			if a.Verdict != middleware.Allowed {
				t.Errorf("a request was not allowed: %v", a.Err)
				return
			}
			time.Sleep(time.Duration(i) * 20 * time.Microsecond)
			dropped := a.Dropped()
			all.Go(dropped)
			engine.End(c, &a, 0)
		})
	}
	all.Wait()
	require.Eventually(t, func() bool { return s.ends.Load() == requests }, 20*time.Second, time.Millisecond, "each slot is released once")
	require.NotZero(t, s.holds.Load(), "the premise: slots were held for longer meanwhile")
}
