package core_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// minuteAndDay returns two limits with names.
func minuteAndDay(minute, day int64) []core.Limit {
	return []core.Limit{core.PerMinute(minute).WithName("minute"), core.PerDay(day).WithName("day")}
}

// sold is a policy with a plan.
func sold() core.Policy {
	return core.Policy{Name: "api", Limits: minuteAndDay(60, 1000), Plans: map[string][]core.Limit{"pro": minuteAndDay(600, 100_000)}}
}

func TestPlanThatThereIsNotIsAMistake(t *testing.T) {
	_, err := core.Must(core.NewLimiter(core.NewMemoryStore(), sold())).WithPlan("gold")
	var mistake *core.ConfigError
	require.ErrorAs(t, err, &mistake)
	assert.Equal(t, "RL120", mistake.Code())
	_, err = limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerDay(1)).WithPlan("pro")
	require.ErrorContains(t, err, "it has no Plans")
}

// A unit that a plan alone counts is no mistake of a request without the plan,
// and SetPolicy keeps it counted.
func TestUnitsThatAPlanCounts(t *testing.T) {
	p := sold()
	p.Plans["pro"] = append(p.Plans["pro"], core.PerDay(100).WithName("tokens").WithUnit("tokens"))
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), p))
	for _, of := range []*core.Limiter{l, core.Must(l.WithPlan("pro"))} {
		assert.True(t, core.Must(of.AllowUnits(t.Context(), "ann", core.Units{"tokens": 5})).Allowed)
	}
	require.ErrorContains(t, l.SetPolicy(sold()), "RL117")
}

func TestWithPlanAllocatesNothing(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), sold()))
	for _, plan := range []string{"pro", ""} {
		assert.Zero(t, testing.AllocsPerRun(100, func() { core.Must(l.WithPlan(plan)) }))
	}
}

// A downgrade cuts a limit in front of slots: the store must not take what it
// keeps of the cut for slots.
func TestSlotsBehindALimitThatWasCut(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		l := core.Must(core.NewLimiter(newStore(core.WithClock(limittest.NewClock().Now)), core.Policy{
			Name: "api", OnFailure: core.FailClosed, Limits: []core.Limit{core.PerDay(2).WithName("day"), core.InFlight(9).WithName("slots"), core.PerHour(2).WithName("hour")},
			Plans: map[string][]core.Limit{"pro": {core.PerHour(10).WithName("day"), core.InFlight(10).WithName("slots"), core.PerDay(10).WithName("hour"), core.PerHour(20).WithName("only pro")}},
		}))
		held := core.Must(core.Must(l.WithPlan("pro")).AllowN(t.Context(), "ann", 3))
		require.NoError(t, held.Release(t.Context()))
		for range 3 {
			assert.False(t, core.Must(l.Allow(t.Context(), "ann")).Allowed, "3 are used, of 2")
		}
	})
}

// An override of a key whose request has as many limits as can be adds none.
func TestAnOverrideAddsNoLimitBeyondTheMost(t *testing.T) {
	var given []core.Limit
	for i := range 64 {
		given = append(given, core.PerHour(5).WithName(strconv.Itoa(i)))
	}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(5).WithName("own")}, Plans: map[string][]core.Limit{"pro": given},
		Overrides: map[string][]core.Limit{"bob": {core.PerHour(9).WithName("own"), core.PerHour(7).WithName("63")}},
	}))
	for _, of := range []*core.Limiter{core.Must(l.WithLimits(given...)), core.Must(l.WithPlan("pro"))} {
		limits := of.Limits("bob")
		assert.Len(t, limits, 64)
		assert.Equal(t, core.PerHour(7).WithName("63"), limits[63])
		assert.True(t, core.Must(of.Allow(t.Context(), "bob")).Allowed)
	}
}
