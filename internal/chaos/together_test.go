package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// On a Cluster the buckets of a charge are on different servers. They are asked
// one after another, and what was taken is given back when a later one denies:
// never too many are admitted, and nobody pays for a denial.
func TestChargesTogetherOnACluster(t *testing.T) {
	soak.Only(t, TestChargesTogetherBesideABadKeyOnACluster)
	_, client := cluster(t)
	store := redisstore.New(client, redisstore.WithTimeout(10*time.Second))
	limiter := func(name string, perDay int) *core.Limiter {
		l, err := core.NewLimiter(store, core.Policy{Name: name, Limits: []core.Limit{core.PerDay(perDay)}, OnFailure: core.FailClosed})
		require.NoError(t, err)
		return l
	}
	const users, perUser, perOrg = 3, 30, 50
	user, org := limiter("charge-user", perUser), limiter("organisation", perOrg) // asked in this order
	ctx := context.Background()
	charge := func(u int) (core.Result, error) {
		return core.AllowTogether(ctx, core.Charge{Limiter: org, Key: "acme"}, core.Charge{Limiter: user, Key: fmt.Sprint("u", u)})
	}
	var admitted atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 20 {
				res, err := charge(i % users)
				if !assert.NoError(t, err) {
					return
				}
				if res.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	all.Wait()
	for u := range users { // what was given back late may have denied some of them
		for {
			res, err := charge(u)
			require.NoError(t, err)
			if !res.Allowed {
				break
			}
			admitted.Add(1)
		}
	}
	assert.Equal(t, int64(perOrg), admitted.Load(), "as many as the organisation has are admitted, and no more")
	left := int64(0)
	for u := range users {
		res, err := user.Peek(ctx, fmt.Sprint("u", u))
		require.NoError(t, err)
		left += res.Remaining
	}
	assert.Equal(t, int64(users*perUser-perOrg), left, "users pay for what was admitted, and for nothing else")
	denialsTake(t, func(i int) (core.Result, error) { return charge(users + i) })
}

// denialsTake logs how long denied charges take: for so long, at most, the
// tokens of a user are gone.
func denialsTake(t *testing.T, charge func(i int) (core.Result, error)) {
	t.Helper()
	for _, callers := range []int{1, 16} {
		var mu sync.Mutex
		var took []time.Duration
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for range 400 / callers {
					begin := time.Now()
					res, err := charge(i)
					if !assert.NoError(t, err) || !assert.False(t, res.Allowed, "premise: the organisation has none") {
						return
					}
					mu.Lock()
					took = append(took, time.Since(begin))
					mu.Unlock()
				}
			})
		}
		all.Wait()
		slices.Sort(took)
		t.Logf("%d at once: a denied charge of two buckets takes %v (median), %v (99 %%)", callers,
			took[len(took)/2].Round(10*time.Microsecond), took[len(took)*99/100].Round(10*time.Microsecond))
	}
}

// On a Cluster too, a key that can't be read is decided by its own policy's
// OnFailure, and charges of one bucket are their sum.
func TestChargesTogetherBesideABadKeyOnACluster(t *testing.T) {
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
