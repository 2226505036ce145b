package redisstore_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// fault is how a script fails.
type fault struct {
	err      error
	executes bool // the server has executed the script
}

// What a caller returned while Redis did not answer is sent again, as far as it
// can't count twice. Each rule says what is left of 10 after 4 were taken and
// returned.
func TestWhatGotNoAnswerIsReturnedLater(t *testing.T) {
	ctx := context.Background()
	slots := core.InFlight(10).WithMaxHold(time.Hour)
	estimates := core.PerDay(10).WithMode(core.Aligned).WithUnit("tokens").WithMaxHold(time.Hour)
	tokens := core.PerDay(10).WithMode(core.Aligned)
	units := core.PerDay(10).WithMode(core.Aligned).WithUnit("tokens")
	type giveBack = func(l *core.Limiter, r *core.Result) error
	release := func(_ *core.Limiter, r *core.Result) error { return r.Release(ctx) }
	releaseJoint := func(_ *core.Limiter, r *core.Result) error {
		joint := core.Result{Parts: []core.Result{*r}}
		return joint.Release(ctx)
	}
	undo := func(_ *core.Limiter, r *core.Result) error { return r.Undo(ctx) }
	settle := func(used int64) giveBack {
		return func(_ *core.Limiter, r *core.Result) error { return r.Settle(ctx, core.Units{"tokens": used}) }
	}
	refund := func(l *core.Limiter, _ *core.Result) error { return l.Refund(ctx, "k", 4) }
	for _, rule := range []struct {
		name    string
		limit   core.Limit
		give    giveBack
		unsent  int64 // left if the call never reached Redis
		ignored int64 // left if Redis has not executed it, which nobody knows
		lost    int64 // left if Redis has executed it, which nobody knows
	}{
		{"slots that are released", slots, release, 10, 10, 10},
		{"slots that are undone", slots, undo, 10, 10, 10},
		{"slots of a joint decision", slots, releaseJoint, 10, 10, 10},
		{"estimates that are undone", estimates, undo, 10, 10, 10},
		{"estimates that are settled", estimates, settle(1), 9, 6, 9},
		{"tokens that are undone", tokens, undo, 10, 6, 10},
		{"units that are settled", units, settle(1), 9, 6, 9},
		{"units that cost more", units, settle(7), 3, 6, 3},
		{"a refund that the caller can repeat", tokens, refund, 6, 6, 10},
	} {
		for when, c := range map[string]struct {
			fault
			left int64
		}{
			"not sent": {fault{err: &net.OpError{Op: "dial", Err: errors.New("refused")}}, rule.unsent},
			"ignored":  {fault{err: errors.New("no answer")}, rule.ignored},
			"lost":     {fault{err: errors.New("no answer"), executes: true}, rule.lost},
		} {
			t.Run(rule.name+"/"+when, func(t *testing.T) {
				var now atomic.Pointer[fault]
				client := hooked(t, "eval", func(_ redis.Cmder, send func() error) error {
					f := now.Load()
					if f == nil || f.executes {
						if err := send(); f == nil {
							return err
						}
					}
					return f.err
				})
				options := []redisstore.Option{
					redisstore.WithPrefix(redistest.Prefix()), redisstore.WithBreaker(5, time.Millisecond),
					core.WithClock(func() time.Time { return time.Unix(1_000_000_000, 0) }),
				}
				s, other := storeOn(client, options...), storeOn(redistest.Client(t), options...) // which nobody asks, and which looks
				slot := core.InFlight(1).WithMaxHold(time.Hour)
				l, marker := limittest.Limiter(t, s, "api", rule.limit), limittest.Limiter(t, s, "marker", slot)
				unit := rule.limit.Unit
				if unit == "" {
					unit = core.Requests
				}
				res, err := l.AllowUnits(ctx, "k", core.Units{unit: 4})
				require.True(t, err == nil && res.Allowed, "premise: %v", err)
				last, err := marker.Allow(ctx, "k")
				require.True(t, err == nil && last.Allowed, "premise: %v", err)

				now.Store(&c.fault)
				require.ErrorIs(t, rule.give(l, &res), core.ErrUnavailable, "the caller learns it")
				require.ErrorIs(t, last.Release(ctx), core.ErrUnavailable)
				now.Store(nil)
				require.Eventually(t, func() bool { return limittest.Left(t, limittest.Limiter(t, other, "marker", slot), "k") == 1 },
					time.Minute, time.Millisecond, "what was released last has come back, although nobody asks")
				assert.Equal(t, c.left, limittest.Left(t, limittest.Limiter(t, other, "api", rule.limit), "k"))
			})
		}
	}
}
