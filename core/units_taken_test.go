package core_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
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
	both, requestsAlone := []core.Limit{requests, tokens}, []core.Limit{requests}
	for rule, c := range map[string]struct {
		limits, override, tier []core.Limit
		first, each            func(*core.Limiter, string)
		want                   string // the unit that is warned of
	}{
		"no request takes tokens":       {limits: both, each: allow, want: "tokens"},
		"AllowUnits takes another unit": {limits: append(both, tokens.WithName("w").WithUnit("words")), each: units(core.Units{"words": 1}), want: "tokens"},
		"no request takes a request":    {limits: both, each: units(core.Units{core.Requests: 0, "tokens": 1}), want: "requests"},
		"all take 0 tokens":             {limits: both, each: units(core.Units{"tokens": 0}), want: "tokens"},
		"tokens of an override":         {limits: requestsAlone, override: []core.Limit{tokens.WithName("r")}, each: allow, want: "tokens"},
		"tokens of WithLimits":          {limits: requestsAlone, tier: both, each: allow, want: "tokens"},
		"in shadow mode too":            {limits: both, each: allow, want: "tokens"},
		"by AllowTogether": {limits: both, each: func(l *core.Limiter, key string) {
			core.Must(core.AllowTogether(ctx, core.Charge{Limiter: l, Key: key}))
		}, want: "tokens"},
		"requests alone":          {limits: requestsAlone, each: allow},
		"both are taken":          {limits: both, each: units(core.Units{"tokens": 1})},
		"one request took tokens": {limits: both, first: units(core.Units{"tokens": 1}), each: allow},
		"tokens are settled": {limits: both, first: func(l *core.Limiter, key string) {
			res := core.Must(l.Allow(ctx, key))
			require.NoError(t, res.Settle(ctx, core.Units{"tokens": 1}))
		}, each: allow},
		"Peek decides nothing":                {limits: both, each: func(l *core.Limiter, key string) { core.Must(l.Peek(ctx, key)) }},
		"the key has no limit of the unit":    {limits: both, override: []core.Limit{requests.WithName("t")}, each: allow},
		"tokens alone, and all take them":     {limits: []core.Limit{tokens}, each: units(core.Units{"tokens": 1})},
		"tokens alone, and requests as a sum": {limits: []core.Limit{tokens}, each: units(core.Units{core.Requests: 0, "tokens": 1})},
	} {
		t.Run(rule, func(t *testing.T) {
			var log logtest.Buffer
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
			if c.want == "" {
				assert.Empty(t, log.String())
				return
			}
			assert.Equal(t, 1, log.Count("\n"), "a line for the unit, once: %s", log.String())
			assert.Contains(t, log.String(), "code=RL715 policy=api unit="+c.want)
		})
	}
}

// A reload is a new chance to misspell a unit, so it is warned of anew.
func TestUnitThatNobodyTakesIsWarnedOfAfterSetPolicy(t *testing.T) {
	var log logtest.Buffer
	policy := func(unit string) core.Policy {
		return core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1e9), core.PerDay(1e9).WithUnit(unit)}}
	}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy("tokens"), core.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
	for _, unit := range []string{"token", "tokenz"} {
		require.NoError(t, l.SetPolicy(policy(unit)))
		for range 5000 {
			core.Must(l.Allow(t.Context(), "k"))
		}
		assert.Equal(t, 1, log.Count("unit="+unit+" "), log.String())
	}
}

// A reload must not take an API down: what callers take must still be counted.
func TestSetPolicyKeepsWhatCallersTake(t *testing.T) {
	ctx := t.Context()
	requests, tokens := core.PerDay(9).WithName("r"), core.PerDay(9).WithName("t").WithUnit("tokens")
	with := func(limits ...core.Limit) core.Policy { return core.Policy{Name: "api", Limits: limits} }
	hidden := with(tokens)
	hidden.Overrides = map[string][]core.Limit{"ann": {requests.WithName("t")}}
	allow := func(l *core.Limiter) { core.Must(l.Allow(ctx, "k")) }
	units := func(l *core.Limiter) { _, _ = l.AllowUnits(ctx, "k", core.Units{"tokens": 1}) }
	for rule, c := range map[string]struct {
		before core.Policy
		take   func(l *core.Limiter)
		next   core.Policy
		want   string
	}{
		"Allow takes requests": {with(requests), allow, with(tokens), "requests"},
		"AllowTogether takes requests": {with(requests), func(l *core.Limiter) {
			core.Must(core.AllowTogether(ctx, core.Charge{Limiter: l, Key: "k"}))
		}, with(tokens), "requests"},
		"Reserve takes requests":          {with(requests), func(l *core.Limiter) { core.Must(l.Reserve(ctx, "k", 1)) }, with(tokens), "requests"},
		"AllowUnits takes tokens":         {with(requests, tokens), units, with(requests), "tokens"},
		"AllowUnits implies its requests": {with(requests, tokens), units, with(tokens), ""},
		"an override counts them":         {with(requests), allow, hidden, ""},
		"nothing was taken":               {with(requests), func(l *core.Limiter) { core.Must(l.Peek(ctx, "k")) }, with(tokens), ""},
		"limits of WithLimits count":      {with(requests), func(l *core.Limiter) { units(core.Must(l.WithLimits(requests, tokens))) }, with(requests.WithBurst(5)), ""},
		"tokens that failed":              {with(requests), units, with(requests.WithBurst(5)), ""},
	} {
		t.Run(rule, func(t *testing.T) {
			l := core.Must(core.NewLimiter(core.NewMemoryStore(), c.before))
			c.take(l)
			err := l.SetPolicy(c.next)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, fmt.Sprintf("Policy.Limits: %q is a unit that callers take and no limit counts any more", c.want))
			require.ErrorContains(t, err, "(RL117)")
			require.Equal(t, c.before, l.Policy(), "the policy stays as it was")
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
