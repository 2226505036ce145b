package core_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
)

// tries is 5 in 15 minutes, and an hour for who asks for more.
var tries = core.Per(5, 15*time.Minute).WithPenalty(time.Hour)

// A penalty is seen everywhere: by the client in its answer, once by observers,
// and by whoever looks at the key. A Reset ends it.
func TestPenaltyIsSeenEverywhere(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		now := time.Now()
		var penalized []string
		l := core.Must(core.NewLimiter(newStore(core.WithClock(func() time.Time { return now })), core.Policy{Name: "login", Limits: []core.Limit{tries}},
			core.WithObserver(func(_ context.Context, o core.Observation) {
				if o.Penalized {
					penalized = append(penalized, o.Key+" "+o.Limit+" "+o.Outcome.String())
				}
			})))
		ask := func() core.Result {
			res := core.Must(l.Allow(t.Context(), "ann"))
			return res
		}
		for range 5 {
			require.True(t, ask().Allowed)
		}
		require.Empty(t, penalized)
		for range 3 {
			res := ask()
			require.Equal(t, time.Hour+3*time.Minute, res.RetryAfter)
			require.Equal(t, "https://iana.org/assignments/http-problem-types#abnormal-usage-detected", core.Problem(res).Type)
			require.Equal(t, []string{"login"}, core.Problem(res).ViolatedPolicies)
			h := make(http.Header)
			res.WriteHeaders(h)
			require.Equal(t, []string{"3780"}, h["Retry-After"])
		}
		require.Equal(t, []string{"ann login denied"}, penalized)

		now = now.Add(30 * time.Minute)
		peek := core.Must(l.Peek(t.Context(), "ann"))
		require.False(t, peek.Allowed)
		require.Equal(t, int64(10), peek.Limits()[0].Debt, "half of what comes in within an hour")

		require.NoError(t, l.Reset(t.Context(), "ann"))
		require.True(t, ask().Allowed)
	})
}

func TestNoPenaltyInShadowModeOrForBlockedKeys(t *testing.T) {
	policy := core.Policy{Name: "login", Limits: []core.Limit{tries}, Shadow: true}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
	for range 9 {
		res := core.Must(l.Allow(t.Context(), "ann"))
		require.True(t, res.Allowed)
		require.Zero(t, res.Limits()[0].Debt)
	}
	policy.Shadow, policy.Blocked = false, []string{"bob"}
	require.NoError(t, l.SetPolicy(policy))
	res := core.Must(l.Allow(t.Context(), "bob"))
	require.Equal(t, core.Never, res.RetryAfter)
	policy.Blocked = nil
	require.NoError(t, l.SetPolicy(policy))
	res = core.Must(l.Allow(t.Context(), "bob"))
	require.True(t, res.Allowed, "a block leaves nothing behind")
}

// A request that only its floor denies has done nothing wrong.
func TestFloorsMakeNoPenalty(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "login", Limits: []core.Limit{tries}}))
	res := core.Must(l.AllowAbove(t.Context(), "ann", 1, 5))
	require.Equal(t, core.Never, res.RetryAfter, "5 and 1 are more than there can be")
	_, _ = l.Allow(t.Context(), "ann")
	res = core.Must(l.AllowAbove(t.Context(), "ann", 1, 4))
	require.InDelta(t, (3 * time.Minute).Seconds(), res.RetryAfter.Seconds(), 1)
	require.Equal(t, int64(4), res.Remaining)
	require.Equal(t, "https://iana.org/assignments/http-problem-types#quota-exceeded", core.Problem(res).Type)
}

func TestMistakesInFloors(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(5)}}))
	_, err := l.AllowAbove(t.Context(), "k", 1, -1)
	require.ErrorIs(t, err, core.ErrCost)
	require.ErrorContains(t, err, "floor")
	_, err = core.AllowTogether(t.Context(), core.Charge{Limiter: l, Key: "k", Floor: core.Units{"tokens": 1}})
	require.ErrorIs(t, err, core.ErrUnit)
	res := core.Must(l.AllowAbove(t.Context(), "k", 0, 100))
	require.True(t, res.Allowed, "who takes nothing need leave nothing")
}

// The fallback has a share of each limit, so it leaves that share of a floor.
func TestTheFallbackLeavesAShareOfAFloor(t *testing.T) {
	away := newAskedStore()
	away.down.Store(true)
	l := core.Must(core.NewLimiter(away, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(100)}, LocalShare: 0.1}))
	allowed := 0
	for range 10 {
		res := core.Must(l.AllowAbove(t.Context(), "k", 1, 40))
		if res.Allowed {
			allowed++
		}
	}
	require.Equal(t, 6, allowed)
}
