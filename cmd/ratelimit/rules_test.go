package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

func TestSentences(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(func() time.Time { return now })), core.Policy{Name: "api", Limits: []core.Limit{
		core.PerHour(1).WithBurst(5).WithName("burst"), core.PerDay(20).WithUnit("tokens").WithName("budget"),
	}}))
	says := func() string {
		res, err := l.Peek(t.Context(), "k")
		require.NoError(t, err)
		return saysState(res, false)
	}
	assert.Equal(t, "allowed: full", says())
	_, err := l.AllowUnits(t.Context(), "k", core.Units{core.Requests: 2, "tokens": 1})
	require.NoError(t, err)
	assert.Equal(t, "allowed: 3 of 5 tokens left of burst", says())
	require.NoError(t, l.Debit(t.Context(), "k", 3))
	assert.Equal(t, "denied: burst is used up, next token in 1 h", says())
	now = now.Add(-20 * time.Second)
	require.NoError(t, l.Debit(t.Context(), "k", 2))
	assert.Equal(t, "denied: burst owes 2 tokens, next token in 3 h", says())

	slots := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "jobs", Limits: []core.Limit{core.InFlight(3)}}))
	_, err = slots.Allow(t.Context(), "k")
	require.NoError(t, err)
	res, err := slots.Peek(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, "allowed: 2 of 3 slots left of jobs", saysState(res, false))

	estimates := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(func() time.Time { return now })), core.Policy{Name: "llm", Limits: []core.Limit{
		core.PerDay(20).WithUnit("tokens").WithMaxHold(time.Hour),
	}}))
	_, err = estimates.AllowUnits(t.Context(), "k", core.Units{"tokens": 20})
	require.NoError(t, err)
	res, err = estimates.Peek(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, "denied: llm is used up, next token in 1 h at the latest", saysState(res, false), "it may be settled earlier")
}
