package core_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// A limit whose unit no request takes never applies: after thousands of
// decisions the limiter warns, once for each unit.
func TestUnitThatNobodyTakesIsWarnedOf(t *testing.T) {
	ctx := t.Context()
	requests, tokens := core.PerDay(1e9).WithName("r"), core.PerDay(1e9).WithName("t").WithUnit("tokens")
	allow := func(l *core.Limiter, key string) { core.Must(l.Allow(ctx, key)) }
	units := func(u core.Units) func(*core.Limiter, string) {
		return func(l *core.Limiter, key string) { core.Must(l.AllowUnits(ctx, key, u)) }
	}
	for rule, c := range map[string]struct {
		limits, override, tier []core.Limit
		first, each            func(*core.Limiter, string)
		want                   []string // units that are warned of
	}{
		"no request takes tokens":       {limits: []core.Limit{requests, tokens}, each: allow, want: []string{"tokens"}},
		"AllowUnits takes another unit": {limits: []core.Limit{requests, tokens, tokens.WithName("w").WithUnit("words")}, each: units(core.Units{"words": 1}), want: []string{"tokens"}},
		"no request takes a request":    {limits: []core.Limit{requests, tokens}, each: units(core.Units{core.Requests: 0, "tokens": 1}), want: []string{"requests"}},
		"all take 0 tokens":             {limits: []core.Limit{requests, tokens}, each: units(core.Units{"tokens": 0}), want: []string{"tokens"}},
		"tokens of an override":         {limits: []core.Limit{requests}, override: []core.Limit{tokens.WithName("r")}, each: allow, want: []string{"tokens"}},
		"tokens of WithLimits":          {limits: []core.Limit{requests}, tier: []core.Limit{requests, tokens}, each: allow, want: []string{"tokens"}},
		"in shadow mode too":            {limits: []core.Limit{requests, tokens}, each: allow, want: []string{"tokens"}},
		"by AllowTogether": {limits: []core.Limit{requests, tokens}, each: func(l *core.Limiter, key string) {
			core.Must(core.AllowTogether(ctx, core.Charge{Limiter: l, Key: key}))
		}, want: []string{"tokens"}},
		"requests alone":          {limits: []core.Limit{requests}, each: allow},
		"both are taken":          {limits: []core.Limit{requests, tokens}, each: units(core.Units{"tokens": 1})},
		"one request took tokens": {limits: []core.Limit{requests, tokens}, first: units(core.Units{"tokens": 1}), each: allow},
		"tokens are settled": {limits: []core.Limit{requests, tokens}, first: func(l *core.Limiter, key string) {
			res := core.Must(l.Allow(ctx, key))
			require.NoError(t, res.Settle(ctx, core.Units{"tokens": 1}))
		}, each: allow},
		"Peek decides nothing":                {limits: []core.Limit{requests, tokens}, each: func(l *core.Limiter, key string) { core.Must(l.Peek(ctx, key)) }},
		"the key has no limit of the unit":    {limits: []core.Limit{requests, tokens}, override: []core.Limit{requests.WithName("t")}, each: allow},
		"tokens alone, and all take them":     {limits: []core.Limit{tokens}, each: units(core.Units{"tokens": 1})},
		"tokens alone, and requests as a sum": {limits: []core.Limit{tokens}, each: units(core.Units{core.Requests: 0, "tokens": 1})},
	} {
		t.Run(rule, func(t *testing.T) {
			var log bytes.Buffer
			policy := core.Policy{Name: "api", Limits: c.limits, Shadow: strings.Contains(rule, "shadow")}
			if c.override != nil {
				policy.Overrides = map[string][]core.Limit{"k": c.override}
			}
			l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy, core.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
			if c.first != nil {
				c.first(l, "k")
			}
			for range 10_000 {
				on := l
				if c.tier != nil {
					on = core.Must(l.WithLimits(c.tier...))
				}
				c.each(on, "k")
			}
			assert.Equal(t, len(c.want), strings.Count(log.String(), "\n"), "a line for each unit, once: %s", log.String())
			for _, unit := range c.want {
				assert.Contains(t, log.String(), "code=RL715 policy=api unit="+unit, rule)
			}
		})
	}
}

// A reload is a new chance to misspell a unit, so it is warned of anew.
func TestUnitThatNobodyTakesIsWarnedOfAfterSetPolicy(t *testing.T) {
	var log bytes.Buffer
	policy := func(unit string) core.Policy {
		return core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1e9), core.PerDay(1e9).WithUnit(unit)}}
	}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy("tokens"), core.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
	for _, unit := range []string{"token", "tokenz"} {
		require.NoError(t, l.SetPolicy(policy(unit)))
		for range 5000 {
			core.Must(l.Allow(t.Context(), "k"))
		}
		assert.Equal(t, 1, strings.Count(log.String(), "unit="+unit+" "), log.String())
	}
}

// A reload must not take an API down: what callers take must still be counted.
func TestSetPolicyKeepsWhatCallersTake(t *testing.T) {
	ctx := t.Context()
	requests, tokens := core.PerDay(9).WithName("r"), core.PerDay(9).WithName("t").WithUnit("tokens")
	with := func(limits ...core.Limit) core.Policy { return core.Policy{Name: "api", Limits: limits} }
	hidden := with(tokens)
	hidden.Overrides = map[string][]core.Limit{"ann": {requests.WithName("t")}}
	for rule, c := range map[string]struct {
		before core.Policy
		take   func(l *core.Limiter) error
		next   core.Policy
		want   string
	}{
		"Allow takes requests": {with(requests), func(l *core.Limiter) error { _, err := l.Allow(ctx, "k"); return err }, with(tokens), "requests"},
		"AllowTogether takes requests": {with(requests), func(l *core.Limiter) error {
			_, err := core.AllowTogether(ctx, core.Charge{Limiter: l, Key: "k"})
			return err
		}, with(tokens), "requests"},
		"Reserve takes requests":          {with(requests), func(l *core.Limiter) error { _, err := l.Reserve(ctx, "k", 1); return err }, with(tokens), "requests"},
		"AllowUnits takes tokens":         {with(requests, tokens), func(l *core.Limiter) error { _, err := l.AllowUnits(ctx, "k", core.Units{"tokens": 1}); return err }, with(requests), "tokens"},
		"AllowUnits implies its requests": {with(requests, tokens), func(l *core.Limiter) error { _, err := l.AllowUnits(ctx, "k", core.Units{"tokens": 1}); return err }, with(tokens), ""},
		"an override counts them":         {with(requests), func(l *core.Limiter) error { _, err := l.Allow(ctx, "k"); return err }, hidden, ""},
		"nothing was taken":               {with(requests), func(l *core.Limiter) error { _, err := l.Peek(ctx, "k"); return err }, with(tokens), ""},
		"limits of WithLimits count": {with(requests), func(l *core.Limiter) error {
			_, err := core.Must(l.WithLimits(requests, tokens)).AllowUnits(ctx, "k", core.Units{"tokens": 1})
			return err
		}, with(requests.WithBurst(5)), ""},
		"tokens that failed": {with(requests), func(l *core.Limiter) error { _, _ = l.AllowUnits(ctx, "k", core.Units{"tokens": 1}); return nil }, with(requests.WithBurst(5)), ""},
	} {
		t.Run(rule, func(t *testing.T) {
			l := core.Must(core.NewLimiter(core.NewMemoryStore(), c.before))
			require.NoError(t, c.take(l))
			err := l.SetPolicy(c.next)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, fmt.Sprintf("Policy.Limits: %q is a unit that callers take and no limit counts any more", c.want))
			require.ErrorContains(t, err, "(RL117)")
			require.NoError(t, c.take(l), "the policy stays as it was")
			c.next.Shadow = true
			require.NoError(t, l.SetPolicy(c.next), "in shadow mode middleware refuses nothing")
		})
	}
}

func TestErrUnitSaysWhatWasMeant(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(9), core.PerDay(9).WithUnit("tokens")}}))
	for unit, want := range map[string]string{
		"Tokens": `"Tokens" (did you mean "tokens"?)`, "token": `"token" (did you mean "tokens"?)`, "Requests": `"Requests" (did you mean "requests"?)`,
		"request": `"request" (did you mean "requests"?)`, "bytes": `"bytes"`, "\x1b[m": `"\x1b[m"`,
	} {
		_, err := l.AllowUnits(t.Context(), "k", core.Units{unit: 1})
		require.ErrorIs(t, err, core.ErrUnit)
		require.EqualError(t, err, core.ErrUnit.Error()+": "+want)
	}
	_, err := l.AllowUnits(t.Context(), "k", core.Units{"\x1b\n": -1})
	require.EqualError(t, err, core.ErrCost.Error()+`: -1 \x1b\n`)
}
