package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
)

// A peek answers for a request that takes one of each unit, and takes nothing.
func TestPeekSaysWhatARequestWouldGet(t *testing.T) {
	for rule, c := range map[string]struct {
		limits  []core.Limit
		taken   core.Units
		allowed bool
		retry   time.Duration
	}{
		"tokens are left":              {[]core.Limit{core.PerMinute(2)}, core.Units{core.Requests: 1}, true, 0},
		"no token is left":             {[]core.Limit{core.PerMinute(2)}, core.Units{core.Requests: 2}, false, 30 * time.Second},
		"another unit is used up":      {[]core.Limit{core.PerMinute(2), core.PerHour(60).WithUnit("tokens")}, core.Units{"tokens": 60}, false, time.Minute},
		"no limit counts requests":     {[]core.Limit{core.PerHour(60).WithUnit("tokens")}, core.Units{"tokens": 59}, true, 0},
		"the only unit is used up":     {[]core.Limit{core.PerHour(60).WithUnit("tokens")}, core.Units{"tokens": 60}, false, time.Minute},
		"a slot is free":               {[]core.Limit{core.InFlight(2)}, core.Units{core.Requests: 1}, true, 0},
		"all slots are in use":         {[]core.Limit{core.InFlight(2)}, core.Units{core.Requests: 2}, false, time.Minute},
		"an estimate holds all tokens": {[]core.Limit{core.PerDay(1).WithUnit("tokens").WithMaxHold(time.Hour)}, core.Units{"tokens": 1}, false, time.Hour},
		"nothing is taken":             {[]core.Limit{core.PerMinute(2)}, core.Units{core.Requests: 0}, true, 0},
	} {
		t.Run(rule, func(t *testing.T) {
			bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
				now := time.Now()
				l := core.Must(core.NewLimiter(newStore(core.WithClock(func() time.Time { return now })), core.Policy{Name: "api", Limits: c.limits}))
				taken := core.Must(l.AllowUnits(t.Context(), "k", c.taken))
				require.True(t, taken.Allowed, "premise")
				for range 2 {
					res := core.Must(l.Peek(t.Context(), "k"))
					assert.Equal(t, c.allowed, res.Allowed)
					assert.Equal(t, c.retry, res.RetryAfter)
					require.NoError(t, res.Undo(t.Context()), "there is nothing to give back")
				}
			})
		})
	}
}
