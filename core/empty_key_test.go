package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
)

// An empty key is a missing key, without HTTP too: all clients without a key
// would share one bucket. Every call returns ErrNoKey for it, in every failure
// mode and in shadow mode.
func TestEmptyKeyIsErrNoKey(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // shorter than a wait for a token, so that no call blocks
	defer cancel()
	for name, policy := range map[string]core.Policy{
		"enforced": {}, "shadow": {Shadow: true}, "fail open": {OnFailure: core.FailOpen}, "fail closed": {OnFailure: core.FailClosed},
	} {
		policy.Name, policy.Limits = "api", []core.Limit{core.PerDay(5)}
		l, observed := watched(t, core.NewMemoryStore(), policy)
		for call, do := range map[string]func() (core.Result, error){
			"Allow":       func() (core.Result, error) { return l.Allow(ctx, "") },
			"AllowN":      func() (core.Result, error) { return l.AllowN(ctx, "", 2) },
			"AllowN 0":    func() (core.Result, error) { return l.AllowN(ctx, "", 0) },
			"AllowAtMost": func() (core.Result, error) { return l.AllowAtMost(ctx, "", 2) },
			"AllowUnits":  func() (core.Result, error) { return l.AllowUnits(ctx, "", core.Units{core.Requests: 1}) },
			"Peek":        func() (core.Result, error) { return l.Peek(ctx, "") },
			"Reserve":     func() (core.Result, error) { return l.Reserve(ctx, "", 1) },
			"Acquire":     func() (core.Result, error) { return l.Acquire(ctx, "") },
			"Wait":        func() (core.Result, error) { return core.Result{}, l.Wait(ctx, "") },
			"WaitN":       func() (core.Result, error) { return core.Result{}, l.WaitN(ctx, "", 2) },
			"Refund":      func() (core.Result, error) { return core.Result{}, l.Refund(ctx, "", 1) },
			"Refund 0":    func() (core.Result, error) { return core.Result{}, l.Refund(ctx, "", 0) },
			"Reset":       func() (core.Result, error) { return core.Result{}, l.Reset(ctx, "") },
			"derived":     func() (core.Result, error) { return core.Must(l.WithLimits(core.PerDay(9))).Allow(ctx, "") },
		} {
			res, err := do()
			assert.ErrorIs(t, err, core.ErrNoKey, "%s, %s", call, name)
			assert.False(t, res.Allowed, "%s, %s: shadow mode does not allow it either: the mistake is the caller's", call, name)
		}
		assert.Empty(t, *observed, "a call without a key is no decision, so no observer is called")
	}
}
