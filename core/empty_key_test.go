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
		t.Run(name, func(t *testing.T) {
			policy.Name, policy.Limits = "api", []core.Limit{core.PerDay(5)}
			observed := 0
			l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy,
				core.WithObserver(func(context.Context, core.Observation) { observed++ })))
			for call, do := range map[string]func() error{
				"Allow":    func() error { _, err := l.Allow(ctx, ""); return err },
				"AllowN":   func() error { _, err := l.AllowN(ctx, "", 2); return err },
				"AllowN 0": func() error { _, err := l.AllowN(ctx, "", 0); return err },
				"Peek":     func() error { _, err := l.Peek(ctx, ""); return err },
				"Reserve":  func() error { _, err := l.Reserve(ctx, "", 1); return err },
				"Wait":     func() error { return l.Wait(ctx, "") },
				"WaitN":    func() error { return l.WaitN(ctx, "", 2) },
				"Refund":   func() error { return l.Refund(ctx, "", 1) },
				"Refund 0": func() error { return l.Refund(ctx, "", 0) },
				"Reset":    func() error { return l.Reset(ctx, "") },
				"derived":  func() error { _, err := core.Must(l.WithLimits(core.PerDay(9))).Allow(ctx, ""); return err },
			} {
				assert.ErrorIs(t, do(), core.ErrNoKey, call)
			}
			assert.Zero(t, observed, "a call without a key is no decision, so no observer is called")
			res, err := l.Allow(ctx, "")
			assert.ErrorIs(t, err, core.ErrNoKey)
			assert.False(t, res.Allowed, "shadow mode does not allow it either: the mistake is the caller's")
		})
	}
}
