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
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// meanwhile is a context that calls a function where the engine looks whether
// the request has ended: after the user's functions, and before the limiters
// decide.
type meanwhile struct {
	context.Context

	do func()
}

func (m meanwhile) Err() error {
	m.do()
	return m.Context.Err()
}

// A policy that changes while a request is decided may allow or deny it, as the
// one before might, but the request must not fail.
func TestAPolicyThatChangesMeanwhileFailsNoRequest(t *testing.T) {
	tokens := func(n int64) core.Limit { return core.PerHour(n).WithName("tokens").WithUnit("tokens") }
	requests := func(n int64) core.Limit { return core.PerHour(n).WithName("requests") }
	unknown := func(*request) (int64, error) { return 0, core.ErrUnknownCost }
	units := func(u core.Units) func(*request) (core.Units, error) {
		return func(*request) (core.Units, error) { return u, nil }
	}
	for name, c := range map[string]struct {
		before, after []core.Limit
		options       middleware.Options[*request]
	}{
		"requests are not counted any more": {
			before: []core.Limit{requests(10)}, after: []core.Limit{tokens(10)}, options: middleware.Options[*request]{Units: units(nil)},
		},
		"a unit is counted from now on": {
			before: []core.Limit{requests(10)}, after: []core.Limit{requests(10), tokens(1)},
			options: middleware.Options[*request]{Units: units(core.Units{core.Requests: 1})},
		},
		"the whole Capacity becomes smaller": {
			before: []core.Limit{requests(10)}, after: []core.Limit{requests(5)}, options: middleware.Options[*request]{Cost: unknown},
		},
		"the whole Capacity becomes smaller, with units": {
			before: []core.Limit{requests(10), tokens(10)}, after: []core.Limit{requests(5), tokens(10)},
			options: middleware.Options[*request]{Cost: unknown, Units: units(core.Units{"tokens": 3})},
		},
	} {
		for _, together := range []bool{false, true} {
			store := core.NewMemoryStore()
			limiter := limittest.Limiter(t, store, "key", c.before...)
			options := adapter.Options[*request]{Options: c.options}
			options.Settle = func(*request, int) core.Units { return nil }
			key := func(*request) (string, error) { return "k", nil }
			engine := adapter.New(limiter, key, options)
			if together {
				everybody := limittest.Limiter(t, store, "everybody", requests(10), tokens(10))
				engine = adapter.NewTogether([]middleware.Rule[func(*request) (string, error)]{{Limiter: limiter, Key: key}, {Limiter: everybody, Key: key}}, options)
			}
			changed := 0
			ctx := meanwhile{t.Context(), func() {
				require.NoError(t, limiter.SetPolicy(core.Policy{Name: "key", Limits: c.after}))
				changed++
			}}
			x := &request{r: httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx), w: httptest.NewRecorder()}
			v := engine.Begin(x, x)
			require.NotZero(t, changed, "%s: the premise: the policy changed while the request was decided", name)
			assert.NotEqual(t, middleware.Failed, v.Verdict, "%s, together %t: %v", name, together, v.Err)
			x = newRequest()
			v = engine.Begin(x, x)
			assert.NotEqual(t, middleware.Failed, v.Verdict, "%s, together %t: the next request: %v", name, together, v.Err)
		}
	}
}
