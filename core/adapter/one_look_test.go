package adapter_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// meanwhile is a context that calls a function where the engine looks whether
// the request has ended: after it has looked at what the policies count, and
// before the limiters decide.
type meanwhile struct {
	context.Context

	do func()
}

func (m meanwhile) Err() error {
	m.do()
	return m.Context.Err()
}

// What a request takes depends on what its policies count, and on their
// Capacity. A policy that changes between that look and the decision must not
// make the request fail.
func TestARequestIsDecidedByOnePolicy(t *testing.T) {
	tokens := func(n int64) core.Limit { return core.PerHour(n).WithName("tokens").WithUnit("tokens") }
	requests := func(n int64) core.Limit { return core.PerHour(n).WithName("requests") }
	unknown := func(*request) (int64, error) { return 0, core.ErrUnknownCost }
	units := func(u core.Units) func(*request) (core.Units, error) {
		return func(*request) (core.Units, error) { return u, nil }
	}
	for name, c := range map[string]struct {
		before, after []core.Limit
		options       adapter.Options[*request]
		together      bool
		cost          int64
	}{
		"requests are not counted any more": {
			before: []core.Limit{requests(10)}, after: []core.Limit{tokens(10)},
			options: adapter.Options[*request]{Options: middleware.Options[*request]{Units: units(nil)}}, cost: 1,
		},
		"together: a unit is not counted any more": {
			before: []core.Limit{requests(10), tokens(10)}, after: []core.Limit{requests(10)},
			options: adapter.Options[*request]{Options: middleware.Options[*request]{Units: units(core.Units{"tokens": 3})}}, together: true, cost: 1,
		},
		"together: a unit is counted from now on": {
			before: []core.Limit{requests(10)}, after: []core.Limit{requests(10), tokens(1)},
			options: adapter.Options[*request]{Options: middleware.Options[*request]{Units: units(core.Units{"tokens": 3})}}, together: true, cost: 1,
		},
		"together: the whole Capacity becomes smaller": {
			before: []core.Limit{requests(10)}, after: []core.Limit{requests(5)},
			options: adapter.Options[*request]{Options: middleware.Options[*request]{Cost: unknown}}, together: true, cost: 10,
		},
		"together: the whole Capacity becomes smaller, with units": {
			before: []core.Limit{requests(10), tokens(10)}, after: []core.Limit{requests(5), tokens(10)},
			options: adapter.Options[*request]{Options: middleware.Options[*request]{Cost: unknown, Units: units(core.Units{"tokens": 3})}}, together: true, cost: 10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			requireOneLook(t, c.before, c.after, c.options, c.together, c.cost)
		})
	}
}

func requireOneLook(t *testing.T, before, after []core.Limit, options adapter.Options[*request], together bool, cost int64) {
	t.Helper()
	store := core.NewMemoryStore()
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "key", Limits: before}))
	options.Settle = func(*request, int) core.Units { return nil }
	key := func(*request) (string, error) { return "k", nil }
	engine := adapter.New(limiter, key, options)
	if together {
		everybody := core.Must(core.NewLimiter(store, core.Policy{Name: "everybody", Limits: []core.Limit{core.PerHour(10).WithName("requests"), core.PerHour(10).WithName("tokens").WithUnit("tokens")}}))
		engine = adapter.NewTogether([]middleware.Rule[func(*request) (string, error)]{{Limiter: limiter, Key: key}, {Limiter: everybody, Key: key}}, options)
	}
	changed := 0
	ctx := meanwhile{t.Context(), func() {
		require.NoError(t, limiter.SetPolicy(core.Policy{Name: "key", Limits: after}))
		changed++
	}}
	x := &request{r: httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx), w: httptest.NewRecorder()}
	v := engine.Begin(x, x)
	require.NotZero(t, changed, "the policy changed while the request was decided")
	require.Equal(t, middleware.Allowed, v.Verdict, "a request failed because its policy changed meanwhile: %v", v.Err)
	results := middleware.AllFromContext(x.Decision())
	for _, r := range results {
		assert.Equal(t, cost, r.Cost, "what a request takes is what the policy that decides says: %+v", r)
	}
	assert.True(t, engine.WantsStatus(v))

	x = &request{r: httptest.NewRequest(http.MethodGet, "/", nil), w: httptest.NewRecorder()}
	v = engine.Begin(x, x)
	assert.NotEqual(t, middleware.Failed, v.Verdict, "the next request is decided by the new policy: %v", v.Err)
}
