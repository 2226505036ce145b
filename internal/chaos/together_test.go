package chaos_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// On a Cluster, whose servers are asked one after another, a key that can't be read is decided by its own policy's
// OnFailure, and charges of one bucket are their sum.
func TestChargesTogetherBesideABadKeyOnACluster(t *testing.T) {
	beside(t)
	ctx := t.Context()
	_, client := cluster(t)
	store := redisstore.New(client, redisstore.WithTimeout(10*time.Second), redisstore.WithPrefix("bad:"))
	limiter := func(name string, perDay int64, mode core.FailureMode) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{Name: name, Limits: []core.Limit{core.PerDay(perDay)}, OnFailure: mode}))
	}
	for _, mode := range []core.FailureMode{core.FailClosed, core.FailOpen, core.FailLocal} {
		org, user := limiter("org", 6, core.FailOpen), limiter("user", 2, mode)
		require.NoError(t, org.Reset(ctx, "acme"))
		require.NoError(t, client.Set(ctx, "bad:user:ann", "text", 0).Err())
		acme := core.Charge{Limiter: org, Key: "acme"}
		want := map[core.FailureMode]int64{core.FailClosed: 0, core.FailOpen: 3, core.FailLocal: 2}[mode]
		got := int64(0)
		for range 5 {
			j, err := core.AllowTogether(ctx, acme, core.Charge{Limiter: user, Key: "ann"}, acme)
			if mode == core.FailClosed {
				require.ErrorIs(t, err, core.ErrUnavailable)
				continue
			}
			require.NoError(t, err)
			if j.Allowed {
				got++
			}
		}
		assert.Equal(t, want, got, "%v: the organisation has 6 tokens, of which each request takes 2", mode)
		res, err := org.Peek(ctx, "acme")
		require.NoError(t, err)
		assert.Equal(t, core.FromStore, res.Source)
		assert.Equal(t, 6-2*want, res.Remaining, "%v: only allowed requests are charged", mode)
	}
}
