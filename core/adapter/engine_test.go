package adapter_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

func newRequest() *request {
	return &request{r: httptest.NewRequest(http.MethodGet, "/", nil), w: httptest.NewRecorder()}
}

// A limiter that is nil is a mistake in the program, and the only one for which
// a handler panics.
func TestInHandlerRefusesNoLimiter(t *testing.T) {
	defer func() {
		err, _ := recover().(error)
		require.ErrorContains(t, err, "Allow limiter: <nil> must be a limiter from core.NewLimiter (RL306)", "the panic names the argument")
	}()
	adapter.InHandler[*request](nil, "k")
}

// The user's own middleware may call ByRoute behind a limiter. The note that it
// leaves with the request is not a decision.
func TestByRouteBehindALimiterKeepsTheDecision(t *testing.T) {
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerHour(5))
	x := newRequest()
	v := adapter.New(limiter, func(*request) (string, error) { return "k", nil }, adapter.Options[*request]{}).Begin(x, x)
	_, err := adapter.ByRoute("")(x)
	require.NoError(t, err)
	got, ok := middleware.FromContext(x.Decision())
	assert.True(t, ok)
	assert.Equal(t, v.Result().Limits(), got.Limits())
}

// A limit that is tried out in shadow mode must show all that it will refuse,
// and not only what exceeds it.
func TestShadowModeLogsRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		lines string
	}{
		"no key":                    {fmt.Errorf("%w: no user", core.ErrNoKey), "status=400"},
		"a key function that fails": {errors.New("no database"), "status=500"},
		"a store that is away":      {core.ErrUnavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
				Name: "api", Limits: []core.Limit{core.PerHour(1)}, Shadow: true}))
			engine := adapter.New(limiter, func(*request) (string, error) { return "", c.err }, adapter.Options[*request]{})
			logged := logtest.Capture(func() {
				for range 3 {
					x := newRequest()
					v := engine.Begin(x, x)
					require.Equal(t, middleware.Allowed, v.Verdict)
					require.Equal(t, core.Result{}, v.Result())
					require.False(t, engine.Done(x, v, http.StatusOK), "nothing was charged")
				}
			})
			n := strings.Count(logged, "\n")
			if c.lines == "" {
				assert.Zero(t, n, logged)
				return
			}
			assert.Equal(t, 1, n, "one line a minute: %s", logged)
			assert.Contains(t, logged, c.lines)
			assert.Contains(t, logged, "policy=api")
		})
	}
}

// What a middleware has taken must stay counted, from its first request on.
func TestAReloadAfterTheFirstRequestKeepsRequests(t *testing.T) {
	key := func(*request) (string, error) { return "k", nil }
	other := limittest.Limiter(t, core.NewMemoryStore(), "other", core.PerHour(9))
	for name, install := range map[string]func(*core.Limiter) *adapter.Engine[*request]{
		"New": func(l *core.Limiter) *adapter.Engine[*request] {
			return adapter.New(l, key, adapter.Options[*request]{})
		},
		"NewTogether": func(l *core.Limiter) *adapter.Engine[*request] {
			return adapter.NewTogether([]middleware.Rule[func(*request) (string, error)]{{Limiter: l, Key: key}, {Limiter: other, Key: key}}, adapter.Options[*request]{})
		},
	} {
		limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerHour(1))
		x := newRequest()
		require.Equal(t, middleware.Allowed, install(limiter).Begin(x, x).Verdict)
		tokens := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1).WithUnit("tokens")}}
		require.ErrorContains(t, limiter.SetPolicy(tokens), `Policy.Limits: "requests" is a unit that callers take`, name)
		tokens.Shadow = true
		require.NoError(t, limiter.SetPolicy(tokens), "in shadow mode nothing is refused")
	}
}

// A handler that undoes its own decision, and a middleware that refunds it too,
// return the tokens once.
func TestHandlerAndMiddlewareReturnTokensOnce(t *testing.T) {
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerDay(10))
	other := limittest.Limiter(t, core.NewMemoryStore(), "other", core.PerDay(20))
	key := func(*request) (string, error) { return "k", nil }
	options := adapter.Options[*request]{Options: middleware.Options[*request]{
		Cost:   func(*request) (int64, error) { return 3, nil },
		Refund: func(*request, int) bool { return true },
	}}
	for name, engine := range map[string]*adapter.Engine[*request]{
		"New":         adapter.New(limiter, key, options),
		"NewTogether": adapter.NewTogether([]middleware.Rule[func(*request) (string, error)]{{Limiter: limiter, Key: key}, {Limiter: other, Key: key}}, options),
	} {
		limittest.Use(t, limiter, "k", 5)
		x := newRequest()
		v := engine.Begin(x, x)
		require.Equal(t, middleware.Allowed, v.Verdict)
		for i, want := range []error{nil, core.ErrSettled} {
			res, ok := middleware.FromContext(x.Decision())
			require.True(t, ok)
			require.ErrorIs(t, res.Undo(t.Context()), want, "%s: Undo %d", name, i+1)
		}
		engine.Done(x, v, http.StatusOK)
		assert.EqualValues(t, 5, limittest.Left(t, limiter, "k"), "%s: the tokens came back more than once, or never", name)
		require.NoError(t, limiter.Reset(t.Context(), "k"))
	}
}
