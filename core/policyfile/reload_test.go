package policyfile_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

const before = "- {name: api, limits: [60/min]}\n- {name: login, limits: [5/15m]}\n"

// limitersOf returns the limiters of the policies before, and the file.
func limitersOf(t *testing.T, options ...core.LimiterOption) (path string, api, login *core.Limiter) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "policies.yaml")
	write(t, path, before)
	policies, err := policyfile.LoadFile(path)
	require.NoError(t, err)
	store := core.NewMemoryStore()
	return path, core.Must(core.NewLimiter(store, policies["api"], options...)), core.Must(core.NewLimiter(store, policies["login"], options...))
}

func TestReloadChangesAllLimitersOrNone(t *testing.T) {
	path, api, login := limitersOf(t)
	api2 := core.Must(api.WithLimits(core.PerDay(3)))
	_, err := login.AllowUnits(t.Context(), "k", core.Units{core.Requests: 1})
	require.NoError(t, err)
	for text, want := range map[string]string{
		"- {name: api, limits: [90/min]}\n":                                                `limiters[1]: "login" is the policy of this limiter, and not in the file`,
		"- {name: api, limits: [90/min]}\n- {name: login, limits: [five/min]}\n":           `"five" is not a number`,
		"- {name: api, limits: [90/min]}\n- {name: login, limits: [5 tokens/min]}\n":       "is a unit that callers take",
		"- {name: api, limits: [90/min]}\n- {name: login, limits: [9/min]}\n- {name: x}\n": "[2].limits: 0 limits: at least one is required",
	} {
		write(t, path, text)
		err := policyfile.Reload(path, api, login, api)
		require.ErrorContains(t, err, want)
		assert.EqualValues(t, 60, api.Limits("k")[0].Capacity, "the policy that has no mistake is not set either: %s", text)
		assert.EqualValues(t, 5, login.Limits("k")[0].Capacity, text)
	}
	require.ErrorContains(t, policyfile.Reload(path+".none", api), "no such file")
	write(t, path, "- {name: api, limits: [90/min]}\n- {name: login, limits: [9/min]}\n- {name: other, limits: [1/s]}\n")
	require.ErrorContains(t, policyfile.Reload(path, api, nil), "limiters[1]: <nil> must be a limiter")
	assert.EqualValues(t, 60, api.Limits("k")[0].Capacity)
	require.NoError(t, policyfile.Reload(path, api, login, api))
	assert.EqualValues(t, 90, api.Limits("k")[0].Capacity)
	assert.EqualValues(t, 9, login.Limits("k")[0].Capacity)
	assert.EqualValues(t, 3, api2.Limits("k")[0].Capacity, "limiters that WithLimits returned keep their limits")
}

// A file that is read every few seconds must not end leases, denials and
// reservations each time.
func TestReloadOfTheSameFileChangesNothing(t *testing.T) {
	changes := 0
	path, api, login := limitersOf(t, core.WithPolicyObserver(func(core.Policy, []string) { changes++ }))
	made := changes
	for range 3 {
		require.NoError(t, policyfile.Reload(path, api, login))
	}
	assert.Equal(t, made, changes, "no change is reported")
	write(t, path, "- {name: api, limits: [60/min, 100/h]}\n- {name: login, limits: [5/15m]}\n")
	require.NoError(t, policyfile.Reload(path, api, login))
	assert.Equal(t, made+1, changes, "one is: that of api")
}

// Two reloads with their limiters in another order must not wait for each other
// for ever.
func TestReloadsAtOnceDontBlockEachOther(t *testing.T) {
	path, api, login := limitersOf(t)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 50 {
				list := []*core.Limiter{api, login}
				if i%2 == 1 {
					list = []*core.Limiter{login, api}
				}
				assert.NoError(t, policyfile.Reload(path, list...))
				assert.NoError(t, api.SetPolicy(api.Policy()))
			}
		})
	}
	all.Wait()
}

// An observer that panics must not leave limiters locked.
func TestReloadAfterAnObserverPanicked(t *testing.T) {
	panics := false
	path, api, login := limitersOf(t, core.WithPolicyObserver(func(core.Policy, []string) {
		if panics {
			panic("observer")
		}
	}))
	write(t, path, "- {name: api, limits: [90/min]}\n- {name: login, limits: [9/min]}\n")
	panics = true
	assert.Panics(t, func() { _ = policyfile.Reload(path, api, login) }, "the panic reaches the caller")
	panics = false
	done := make(chan error, 1)
	go func() { done <- policyfile.Reload(path, api, login) }()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("no limiter stays locked: the next Reload must return")
	}
	assert.EqualValues(t, 90, api.Limits("k")[0].Capacity)
	assert.EqualValues(t, 9, login.Limits("k")[0].Capacity, "the next Reload sets what is missing")
}

// A limiter that takes a unit between the check and SetPolicy refuses a policy
// that no longer counts it. The error says so, and the others are set.
func TestReloadOfALimiterThatTakesAUnitMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.yaml")
	write(t, path, "- {name: api, limits: [60/min]}\n- {name: login, limits: [5/15m, 100 words/h]}\n")
	policies := core.Must(policyfile.LoadFile(path))
	login := core.Must(core.NewLimiter(core.NewMemoryStore(), policies["login"]))
	take := core.WithPolicyObserver(func(_ core.Policy, changes []string) {
		if len(changes) > 0 {
			core.Must(login.AllowUnits(t.Context(), "k", core.Units{"words": 1}))
		}
	})
	api := core.Must(core.NewLimiter(core.NewMemoryStore(), policies["api"], take))
	write(t, path, "- {name: api, limits: [90/min]}\n- {name: login, limits: [9/15m]}\n")
	err := policyfile.Reload(path, api, login)
	require.ErrorContains(t, err, `"words" is a unit that callers take`)
	assert.NotContains(t, err.Error(), "no policy was changed")
	assert.EqualValues(t, 90, api.Limits("k")[0].Capacity, "the other limiter has its policy")
	assert.EqualValues(t, 5, login.Limits("k")[0].Capacity)
}
