package core_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// What is kept of a Result is all of it, whatever the policy and however the request ended.
func TestKeptResultIsTheSame(t *testing.T) {
	var none core.KeptResult
	assert.Zero(t, none.Result())

	one, two := []core.Limit{core.PerMinute(5)}, []core.Limit{core.PerMinute(5), core.PerDay(20)}
	for name, policy := range map[string]core.Policy{
		"one limit":     {Limits: one},
		"two limits":    {Limits: two},
		"fields":        {Limits: one, Headers: core.HeadersDraft6},
		"shadow":        {Limits: one, Shadow: true},
		"stepped":       {Limits: []core.Limit{{Capacity: 7, RefillRate: 3, RefillInterval: time.Second, Mode: core.Stepped}}},
		"aligned":       {Limits: []core.Limit{{Capacity: 7, RefillRate: 3, RefillInterval: time.Second, Mode: core.Aligned}}},
		"fails open":    {Limits: one, OnFailure: core.FailOpen},
		"fails local":   {Limits: one, OnFailure: core.FailLocal},
		"fails, shadow": {Limits: one, Shadow: true, OnFailure: core.FailLocal},
	} {
		t.Run(name, func(t *testing.T) {
			policy.Name = "api"
			var store core.Store = core.NewMemoryStore()
			if strings.HasPrefix(name, "fails") {
				store = flaky{store}
			}
			limiter := core.Must(core.NewLimiter(store, policy))
			for range 200 {
				want, err := limiter.AllowN(context.Background(), "k", rand.Int64N(9))
				require.NoError(t, err)
				kept := want.Keep()
				got := kept.Result()
				require.Equal(t, want, got)
				header := func(r core.Result) http.Header { h := http.Header{}; r.WriteHeaders(h); return h }
				require.Equal(t, header(want), header(got))
			}
		})
	}
}

// flaky is a store that answers every other request on average.
type flaky struct{ core.Store }

func (f flaky) Do(ctx context.Context, r core.Request) (core.Answer, error) {
	if rand.IntN(2) == 0 {
		return core.Answer{}, errors.New("away")
	}
	return f.Store.Do(ctx, r)
}

// A policy keeps nothing of a response that it wrote: whoever changes one in place changes no other.
func TestResponsesShareNoFields(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	answer := func() http.Header {
		res, err := limiter.Allow(t.Context(), "k")
		require.NoError(t, err)
		h := http.Header{}
		res.WriteHeaders(h)
		return h
	}
	first := answer()
	require.Len(t, first, 5)
	second := answer()
	want := second.Clone()
	for name := range first {
		first[name][0] = "changed"
		first[name] = append(first[name], "more")
	}
	assert.Equal(t, want, second)
	for name, values := range answer() {
		assert.NotContains(t, values, "changed", name)
	}
}

// Fields that need more room than there is are written all the same.
func TestFieldsBeyondTheirRoom(t *testing.T) {
	limits := []core.Limit{core.PerMinute(5), core.PerHour(50), core.PerDay(500)}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "a-policy-with-a-long-name", Limits: limits}))
	res, err := limiter.AllowN(t.Context(), "k", 6)
	require.NoError(t, err)
	require.False(t, res.Allowed)
	h := http.Header{}
	res.WriteHeaders(h)
	assert.Equal(t, `"a-policy-with-a-long-name-1m";r=0, "a-policy-with-a-long-name-1h";r=50;t=3600, "a-policy-with-a-long-name-24h";r=500;t=86400`, h.Get("RateLimit"))
	assert.Equal(t, "no-store", h.Get("Cache-Control"))
	assert.Equal(t, "5", h.Get("X-RateLimit-Limit"))
}
