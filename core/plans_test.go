package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

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

// sold is a policy with plans, and with an override that names one limit.
func sold() core.Policy {
	return core.Policy{
		Name: "api", Limits: minuteAndDay(60, 1000),
		Plans:     map[string][]core.Limit{"pro": minuteAndDay(600, 100_000), "minutes": {core.PerMinute(90).WithName("minute")}},
		Overrides: map[string][]core.Limit{"bob": {core.PerMinute(6000).WithName("minute")}},
	}
}

// capacities returns those of a key's limits, in their order.
func capacities(t *testing.T, l *core.Limiter, key string) (list []int64) {
	t.Helper()
	res, err := l.Allow(t.Context(), key)
	require.NoError(t, err)
	for _, limit := range res.Limits() {
		list = append(list, limit.Limit.Capacity)
	}
	return list
}

// The rows of the table in docs/policies.md: a key's limits are the request's,
// then an override replaces some, then an exception.
func TestLimitsOfAKeyMergeByName(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		now := time.Now()
		l := core.Must(core.NewLimiter(newStore(core.WithClock(func() time.Time { return now })), sold()))
		given := core.Must(l.WithLimits(minuteAndDay(7, 70)...))
		pro, minutes := core.Must(l.WithPlan("pro")), core.Must(l.WithPlan("minutes"))
		for _, row := range []struct {
			who            string
			limiter        *core.Limiter
			ann, bob, both []int64 // both: bob with an exception too
		}{
			{"the policy", l, []int64{60, 1000}, []int64{6000, 1000}, []int64{6000, 5}},
			{"a plan", pro, []int64{600, 100_000}, []int64{6000, 100_000}, []int64{6000, 5}},
			{"a plan with fewer limits", minutes, []int64{90}, []int64{6000}, []int64{6000, 5}},
			{"WithLimits", given, []int64{7, 70}, []int64{6000, 70}, []int64{6000, 5}},
			{"WithLimits of a plan's limiter", core.Must(pro.WithLimits(minuteAndDay(7, 70)...)), []int64{7, 70}, []int64{6000, 70}, []int64{6000, 5}},
		} {
			assert.Equal(t, row.ann, capacities(t, row.limiter, "ann"), row.who)
			assert.Equal(t, row.bob, capacities(t, row.limiter, "bob"), row.who)
			require.NoError(t, row.limiter.SetExceptions(core.Exceptions{Overrides: map[string][]core.Limit{"bob": {core.PerDay(5).WithName("day")}}}))
			require.NoError(t, l.Reset(t.Context(), "bob"))
			assert.Equal(t, row.both, capacities(t, row.limiter, "bob"), row.who)
			require.NoError(t, l.SetExceptions(core.Exceptions{Blocked: []string{"ann"}}))
			res, err := row.limiter.Allow(t.Context(), "ann")
			require.NoError(t, err)
			assert.False(t, res.Allowed, "%s: a block comes before all", row.who)
			require.NoError(t, l.SetExceptions(core.Exceptions{}))
		}
	})
}

// A limit of an override that has no name gets its name among the policy's
// limits, however many the plan has.
func TestOverridesWithoutNamesUnderAPlan(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60), core.PerHour(1000)},
		Plans:     map[string][]core.Limit{"minutes": {core.PerMinute(90).WithName("api-1m")}},
		Overrides: map[string][]core.Limit{"bob": {core.PerMinute(600)}},
	}))
	minutes := core.Must(l.WithPlan("minutes"))
	given := core.Must(l.WithLimits(core.PerMinute(90).WithName("api-1m")))
	for _, of := range []*core.Limiter{minutes, given} {
		assert.Equal(t, []int64{600}, capacities(t, of, "bob"))
	}
	require.NoError(t, given.SetExceptions(core.Exceptions{Overrides: map[string][]core.Limit{"ann": {core.PerMinute(700)}}}))
	for _, of := range []*core.Limiter{minutes, given} {
		assert.Equal(t, []int64{700}, capacities(t, of, "ann"))
	}
}

func TestPlansShareWhatWasUsed(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		now := time.Now()
		l := core.Must(core.NewLimiter(newStore(core.WithClock(func() time.Time { return now })), sold()))
		pro := core.Must(l.WithPlan("pro"))
		taken := core.Must(pro.AllowN(t.Context(), "ann", 50))
		assert.EqualValues(t, 10, core.Must(l.Peek(t.Context(), "ann")).Remaining)
		require.NoError(t, taken.Undo(t.Context()))
		assert.EqualValues(t, 600, core.Must(pro.Peek(t.Context(), "ann")).Remaining)
		own := core.Must(l.AllowN(t.Context(), "ann", 20))
		assert.EqualValues(t, 580, core.Must(pro.Peek(t.Context(), "ann")).Remaining)
		require.NoError(t, own.Undo(t.Context()))
		assert.EqualValues(t, 60, core.Must(l.Peek(t.Context(), "ann")).Remaining)
	})
}

func TestPlansFollowSetPolicy(t *testing.T) {
	now := time.Now()
	var changes []string
	l := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(func() time.Time { return now })), sold(),
		core.WithPolicyObserver(func(_ core.Policy, now []string) { changes = now })))
	pro := core.Must(l.WithPlan("pro"))
	taken := core.Must(pro.AllowN(t.Context(), "ann", 100))
	next := sold()
	next.Plans = map[string][]core.Limit{"pro": minuteAndDay(500, 100_000), "gold": minuteAndDay(5000, 1_000_000)}
	require.NoError(t, l.SetPolicy(next))
	assert.Equal(t, []string{`plan "gold": is new`, `plan "gold": limit "minute": 5000/min, is new`, `plan "gold": limit "day": 1000000/day, is new`,
		`plan "pro": limit "minute": 500/min, was 600/min`, `plan "minutes": removed`}, changes)
	assert.EqualValues(t, 400, core.Must(pro.Peek(t.Context(), "ann")).Remaining, "a limiter of the plan follows")
	require.NoError(t, taken.Undo(t.Context()))
	assert.EqualValues(t, 500, core.Must(pro.Peek(t.Context(), "ann")).Remaining, "what was taken under the plan before comes back")
	assert.Same(t, pro, core.Must(l.WithPlan("pro")))
	assert.Equal(t, []int64{5000, 1_000_000}, capacities(t, core.Must(l.WithPlan("gold")), "cat"))

	taken = core.Must(pro.AllowN(t.Context(), "ann", 30))
	next.Plans = nil
	require.NoError(t, pro.SetPolicy(next), "SetPolicy of a plan's limiter is that of the policy's")
	assert.Equal(t, []int64{60, 1000}, capacities(t, pro, "dan"), "without the plan the policy's own limits hold")
	require.NoError(t, taken.Undo(t.Context()))
	assert.EqualValues(t, 60, core.Must(l.Peek(t.Context(), "ann")).Remaining)
	_, err := l.WithPlan("pro")
	var mistake *core.ConfigError
	require.ErrorAs(t, err, &mistake)
	assert.Equal(t, "RL120", mistake.Code())
}

func TestPlansWithoutAStore(t *testing.T) {
	for mode, want := range map[core.FailureMode]int64{core.FailLocal: 299, core.FailOpen: 0} {
		p := sold()
		p.OnFailure, p.LocalShare = mode, 0.5
		pro := core.Must(core.Must(core.NewLimiter(&limittest.AwayStore{Err: errors.New("away")}, p)).WithPlan("pro"))
		res, err := pro.Allow(t.Context(), "ann")
		require.NoError(t, err)
		assert.EqualValues(t, want, res.Remaining, mode)
	}
}

// A unit that a plan alone counts is no mistake of a request without the plan,
// and SetPolicy keeps it counted.
func TestUnitsThatAPlanCounts(t *testing.T) {
	p := sold()
	p.Plans["pro"] = append(p.Plans["pro"], core.PerDay(100).WithName("tokens").WithUnit("tokens"))
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), p))
	for _, of := range []*core.Limiter{l, core.Must(l.WithPlan("pro"))} {
		res, err := of.AllowUnits(t.Context(), "ann", core.Units{"tokens": 5})
		require.NoError(t, err)
		assert.True(t, res.Allowed)
	}
	require.ErrorContains(t, l.SetPolicy(sold()), "RL117")
}

func TestPoliciesWithPlansInJSON(t *testing.T) {
	p := sold()
	text, err := json.Marshal(p)
	require.NoError(t, err)
	var read core.Policy
	require.NoError(t, json.Unmarshal(text, &read))
	assert.Equal(t, p, read)
	assert.Equal(t, p, core.Must(core.NewLimiter(core.NewMemoryStore(), p)).Policy())
}

func TestWithPlanAllocatesNothing(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), sold()))
	for _, plan := range []string{"pro", ""} {
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := l.WithPlan(plan); err != nil {
				t.Error(err)
			}
		}))
	}
}

// A downgrade cuts a limit in front of slots: the store must not take what it
// keeps of the cut for slots.
func TestSlotsBehindALimitThatWasCut(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		now := time.Now()
		l := core.Must(core.NewLimiter(newStore(core.WithClock(func() time.Time { return now })), core.Policy{
			Name: "api", OnFailure: core.FailClosed, Limits: []core.Limit{core.PerDay(2).WithName("day"), core.InFlight(9).WithName("slots"), core.PerHour(2).WithName("hour")},
			Plans: map[string][]core.Limit{"pro": {core.PerHour(10).WithName("day"), core.InFlight(10).WithName("slots"), core.PerDay(10).WithName("hour"), core.PerHour(20).WithName("only pro")}},
		}))
		held := core.Must(core.Must(l.WithPlan("pro")).AllowN(t.Context(), "ann", 3))
		require.NoError(t, held.Release(t.Context()))
		for range 3 {
			res, err := l.Allow(t.Context(), "ann")
			require.NoError(t, err)
			assert.False(t, res.Allowed, "3 are used, of 2")
		}
	})
}

// limitTexts returns the text of each limit of a key.
func limitTexts(t require.TestingT, l *core.Limiter, key string) map[string]string {
	res, err := l.Peek(context.Background(), key)
	require.NoError(t, err)
	texts := make(map[string]string)
	for _, r := range res.Limits() {
		texts[r.Limit.Name] = r.Limit.WithName("").String()
	}
	return texts
}

// An override of a key whose request has as many limits as can be adds none.
func TestAnOverrideAddsNoLimitBeyondTheMost(t *testing.T) {
	var given []core.Limit
	for i := range 64 {
		given = append(given, core.PerHour(5).WithName(strconv.Itoa(i)))
	}
	policy := core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(5).WithName("own")}, Plans: map[string][]core.Limit{"pro": given},
		Overrides: map[string][]core.Limit{"bob": {core.PerHour(9).WithName("own"), core.PerHour(7).WithName("63")}},
	}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
	for _, of := range []*core.Limiter{core.Must(l.WithLimits(given...)), core.Must(l.WithPlan("pro"))} {
		texts := limitTexts(t, of, "bob")
		assert.Len(t, texts, 64)
		assert.Equal(t, "7/h", texts["63"])
		res, err := of.Allow(t.Context(), "bob")
		require.NoError(t, err)
		assert.True(t, res.Allowed)
	}
}
