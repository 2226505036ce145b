package bucket_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// What the version before stored is read: each state was written by it at 12:00:30 on 1 March 2026.
func TestStateOfTheVersionBeforeIsRead(t *testing.T) {
	day := core.PerDay(100).WithMode(core.Aligned)
	for name, c := range map[string]struct {
		state  string
		limits []core.Limit
		after  time.Duration
		left   []int64
	}{
		"continuous": {"386aaa87f5334018000000000000064bf53778d380064bf58d4d7b80412000004daba951", []core.Limit{core.PerHour(10)}, 6 * time.Minute, []int64{7}},
		"several, one aligned": {
			"b67a5330f5334018000000000000064bf53778d380064bf538e70980412000004ab71b015557dda8b2384058000000000000064bf53778d380064bff449ac00042c80000ce4dfe61",
			[]core.Limit{core.PerMinute(10), day}, 6 * time.Second, []int64{7, 96},
		},
		"stepped, before its step": {
			"386aaa875fe83ff0000000000000064bf53778d380064bf56d1dbc8040a00000cd2ba951",
			[]core.Limit{core.Per(5, 15*time.Minute).WithMode(core.Stepped)}, 15*time.Minute - 1, []int64{1},
		},
		"stepped, after it": {
			"386aaa875fe83ff0000000000000064bf53778d380064bf56d1dbc8040a00000cd2ba951",
			[]core.Limit{core.Per(5, 15*time.Minute).WithMode(core.Stepped)}, 15 * time.Minute, []int64{5},
		},
		"month": {
			"386aaa879a9b408e000000000000064bf53778d380064e5ac3d80000447a0000cf24cb81",
			[]core.Limit{core.PerMonth(1000)}, 24 * time.Hour, []int64{960},
		},
		"lowered from 1,000 a day to 100, and set back": { // which cut 41 of 1,000 to 99 of 141
			"386aaa87f5334058c00000000000064bf53778d380064bfd76e835c0430c00004e4dfe61",
			[]core.Limit{core.PerDay(1000)}, 0, []int64{959},
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := limittest.ClockAt(time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC).Add(c.after))
			store := limittest.NewDecidingStore(clock.Now)
			state, err := hex.DecodeString(c.state)
			require.NoError(t, err)
			store.States[core.JoinKey("api", "k")] = state
			res, err := limittest.Limiter(t, store, "api", c.limits...).Peek(t.Context(), "k")
			require.NoError(t, err)
			for i, limit := range res.Limits() {
				require.Equal(t, c.left[i], limit.Remaining, "%s of %s", limit.Limit.Name, c.state)
			}
		})
	}
}
