package core_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

func TestSetShadowKeepsTheRestOfThePolicy(t *testing.T) {
	policy := core.Policy{
		Name: "api", Limits: []core.Limit{core.PerDay(2)}, OnFailure: core.FailClosed, Headers: core.HeadersDraft8,
		Overrides: map[string][]core.Limit{"ann": {core.PerDay(5)}},
	}
	changes := 0
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy, core.WithPolicyObserver(func(core.Policy, []string) { changes++ })))
	for _, on := range []bool{true, true, false, false} {
		require.NoError(t, l.SetShadow(on))
		want := policy
		want.Shadow = on
		assert.Equal(t, want, l.Policy())
	}
	assert.Equal(t, 3, changes, "what is so already is no change")
	require.NoError(t, l.SetShadow(true))
	_, err := l.AllowUnits(t.Context(), "ann", core.Units{core.Requests: 1})
	require.NoError(t, err)
	policy.Limits, policy.Overrides, policy.Shadow = []core.Limit{core.PerDay(2).WithUnit("tokens")}, nil, true
	require.NoError(t, l.SetPolicy(policy), "shadow mode need not count what callers take")
	require.ErrorContains(t, l.SetShadow(false), "RL117", "to turn it off is checked as SetPolicy is")
	assert.True(t, l.Policy().Shadow, "a mistake changes nothing")
}

// Somebody turns shadow mode on and off while others set policies: none of both
// is lost.
func TestSetShadowLosesNoOtherChange(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}))
	var all sync.WaitGroup
	all.Go(func() {
		for i := range 500 {
			assert.NoError(t, l.SetShadow(i%2 == 0))
		}
	})
	for n := range int64(500) {
		require.NoError(t, l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(n + 1)}}))
		assert.Equal(t, n+1, l.Capacity("k"), "SetShadow must not set limits that another call has replaced")
	}
	all.Wait()
}

func TestSinceIsWhenThePolicyWasSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}
		made := time.Now()
		l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
		time.Sleep(time.Minute)
		require.NoError(t, l.SetPolicy(policy))
		assert.Equal(t, made, l.Since(), "the same policy is no change")
		require.NoError(t, l.SetShadow(true))
		assert.Equal(t, time.Now(), l.Since())
		time.Sleep(time.Minute)
		other, err := l.WithLimits(core.PerDay(5))
		require.NoError(t, err)
		assert.Equal(t, l.Since(), other.Since(), "WithLimits sets no policy")
	})
}

func TestObserversGetTheKey(t *testing.T) {
	var keys []string
	slots := core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(1)}}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), slots, core.WithObserver(func(_ context.Context, o core.Observation) { keys = append(keys, strings.Clone(o.Key)) })))
	reused := []byte("ann")
	res, err := l.Allow(t.Context(), unsafe.String(unsafe.SliceData(reused), len(reused)))
	require.NoError(t, err)
	copy(reused, "bob") // as a framework does with its buffers when a request is over
	require.NoError(t, res.Release(t.Context()))
	assert.Equal(t, []string{"ann", "ann"}, keys, "of a decision, and of its slots, which are released later")
}
