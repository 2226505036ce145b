package oncall_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// An operator's override comes before the policy's, and a block of either
// before all.
func TestRulesSayWhoSetThem(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(5)}, Overrides: map[string][]core.Limit{"ann": {core.PerHour(9)}, "eve": {core.PerHour(9)}},
		Blocked: []string{"bob", "joe"},
	}))
	assert.NoError(t, l.SetExceptions(core.Exceptions{Overrides: map[string][]core.Limit{"joe": {core.PerHour(1)}, "eve": {core.PerHour(1)}}, Blocked: []string{"kim"}}))
	rules := oncall.RulesOf(l)
	for key, want := range map[string]struct{ owner, blocker string }{
		"ann":    {owner: "the policy"},
		"bob":    {blocker: "the policy"},
		"eve":    {owner: oncall.Operator},
		"joe":    {owner: oncall.Operator, blocker: "the policy"},
		"kim":    {blocker: oncall.Operator},
		"nobody": {},
	} {
		assert.Equal(t, want.owner, rules.Owner(key), "%s: who gave it limits", key)
		assert.Equal(t, want.blocker, rules.Blocker(key), "%s: who blocks it", key)
		if want.owner != "" {
			assert.Equal(t, "an override of "+want.owner, rules.From(key, core.Must(l.Peek(t.Context(), key)).Limits()[0].Limit), "%s: where its limit is from", key)
		}
	}
}

// Rules of a plan that somebody chose are that plan's, and a plan that the
// policy lacks is an error.
func TestRulesOfAChosenPlan(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(5)}, Plans: map[string][]core.Limit{"pro": {core.PerHour(50)}},
	}))
	rules := oncall.RulesOf(l)
	assert.True(t, rules.HasPlans())
	pro := rules.For("pro")
	assert.True(t, pro.Chosen)
	assert.Equal(t, `plan "pro"`, pro.From("bob", core.Must(pro.Limiter.Peek(t.Context(), "bob")).Limits()[0].Limit))
	assert.NoError(t, l.SetExceptions(core.Exceptions{
		Overrides: map[string][]core.Limit{"bob": {core.Limit{Times: 2}}}, OverrideNotes: map[string]store.ExceptionNote{"bob": {By: "ann", Until: time.Unix(0, 0), Reason: "launch"}},
	}))
	changed := oncall.RulesOf(l).For("pro")
	assert.Equal(t, `plan "pro", x2 by ann until 1970-01-01 00:00:00 UTC: "launch"`, changed.From("bob", core.Must(changed.Limiter.Peek(t.Context(), "bob")).Limits()[0].Limit))
	assert.Same(t, rules, rules.For(""), "nobody has chosen")
	assert.Nil(t, rules.For("gold"))
}
