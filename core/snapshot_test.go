package core_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

func TestASnapshotKeepsItsPolicy(t *testing.T) {
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(10)}}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
	before := snapshot(limiter)
	policy.Limits = []core.Limit{core.PerHour(4)}
	require.NoError(t, limiter.SetPolicy(policy))
	assert.EqualValues(t, 10, before.Capacity("k"), "a snapshot keeps its policy")
	assert.EqualValues(t, 10, snapshot(before).Capacity("k"), "a snapshot of a snapshot, too")
	assert.EqualValues(t, 4, snapshot(limiter).Capacity("k"), "a new one has the new policy")

	res, err := before.AllowN(t.Context(), "k", 3)
	require.NoError(t, err)
	assert.EqualValues(t, 7, res.Remaining, "it decides by its policy")
	left, err := limiter.Peek(t.Context(), "k")
	require.NoError(t, err)
	assert.EqualValues(t, 1, left.Remaining, "and shares its buckets")
	require.NoError(t, res.Undo(t.Context()))
	left, err = limiter.Peek(t.Context(), "k")
	require.NoError(t, err)
	assert.EqualValues(t, 4, left.Remaining, "its decisions can be undone")

	_, err = before.AllowUnits(t.Context(), "k", core.Units{core.Requests: 1})
	require.NoError(t, err)
	policy.Limits = []core.Limit{core.PerHour(4).WithUnit("tokens")}
	assert.ErrorContains(t, limiter.SetPolicy(policy), "callers take", "what callers take of a snapshot, they take of its limiter")
}

// What a joint decision of snapshots took goes back to the limits that exist
// then.
func TestAJointDecisionOfSnapshotsIsSettledByThePolicyOfThen(t *testing.T) {
	store := core.NewMemoryStore()
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(10).WithName("a")}}
	limiter := core.Must(core.NewLimiter(store, policy))
	other := core.Must(core.NewLimiter(store, core.Policy{Name: "other", Limits: []core.Limit{core.PerHour(10)}}))
	joint, err := core.AllowTogether(t.Context(), core.Charge{Limiter: snapshot(limiter), Key: "k", Cost: 3}, core.Charge{Limiter: other, Key: "k"})
	require.NoError(t, err)
	policy.Limits = []core.Limit{core.PerHour(20).WithName("a"), core.PerHour(5).WithName("t").WithUnit("tokens")}
	require.NoError(t, limiter.SetPolicy(policy))
	require.NoError(t, joint.Settle(t.Context(), core.Units{core.Requests: 1, "tokens": 2}), "the limiter counts tokens now")
	left, err := limiter.Peek(t.Context(), "k")
	require.NoError(t, err)
	assert.EqualValues(t, 19, left.Limits()[0].Remaining, "what was too much came back to the limit of then")
}

// A policy that changes all the time must not keep snapshots from deciding (run
// it with -race).
func TestSnapshotsWhileThePolicyChanges(t *testing.T) {
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1000)}}
	clock := func() time.Time { return time.Unix(1_000_000_000, 0) }
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(clock)), policy))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				now := snapshot(limiter)
				most := now.Capacity("k")
				res, err := now.AllowN(t.Context(), "k", most)
				if assert.NoError(t, err) {
					assert.NotEqual(t, core.Never, res.RetryAfter, "a snapshot's Capacity can be taken of it")
					assert.NoError(t, res.Undo(t.Context()))
				}
			}
		})
	}
	for i := range 400 {
		policy.Limits = []core.Limit{core.PerHour(1000 - 2*i)}
		require.NoError(t, limiter.SetPolicy(policy))
	}
	wg.Wait()
}
