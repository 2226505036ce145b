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
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// A limiter that is nil is a mistake in the program, and the only one for which
// a handler panics.
func TestInHandlerRefusesNoLimiter(t *testing.T) {
	defer func() {
		err, _ := recover().(error)
		require.ErrorContains(t, err, "Allow limiter: <nil> must be a limiter from core.NewLimiter (RL306)", "the panic names the argument")
	}()
	adapter.InHandler[*request](nil, "k")
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
					x := &request{r: httptest.NewRequest(http.MethodGet, "/", nil), w: httptest.NewRecorder()}
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

func TestFailedVerdictHasNoResult(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1)}}))
	engine := adapter.New(limiter, func(*request) (string, error) { return "k", nil }, adapter.Options[*request]{Options: middleware.Options[*request]{
		Cost: func(*request) (int64, error) { return -5, nil },
	}})
	x := &request{r: httptest.NewRequest(http.MethodGet, "/", nil), w: httptest.NewRecorder()}
	v := engine.Begin(x, x)
	assert.Equal(t, middleware.Failed, v.Verdict)
	assert.ErrorIs(t, v.Err, core.ErrCost)
	assert.Equal(t, core.Result{}, v.Result())
}

// An adapter treats a skipped request as an allowed one: Done has nothing to
// return.
func TestSkippedRequestIsAllowedAndNotCharged(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1)}}))
	engine := adapter.New(limiter, func(*request) (string, error) { return "k", nil }, adapter.Options[*request]{Options: middleware.Options[*request]{
		Skip:   func(*request) bool { return true },
		Refund: func(*request, int) bool { t.Error("Refund was called"); return true },
	}})
	x := &request{r: httptest.NewRequest(http.MethodGet, "/", nil), w: httptest.NewRecorder()}
	v := engine.Begin(x, x)
	assert.Equal(t, middleware.Allowed, v.Verdict)
	assert.Equal(t, core.Result{}, v.Result())
	assert.False(t, engine.WantsStatus(v))
	assert.False(t, engine.Done(x, v, http.StatusOK))
	engine.StatusHook(x, v)(http.StatusOK, true)
	assert.Empty(t, x.w.Header(), "no fields of the limit")
}

// What a middleware has taken must stay counted, from its first request on.
func TestAReloadAfterTheFirstRequestKeepsRequests(t *testing.T) {
	key := func(*request) (string, error) { return "k", nil }
	other := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "other", Limits: []core.Limit{core.PerHour(9)}}))
	for name, install := range map[string]func(*core.Limiter) *adapter.Engine[*request]{
		"New": func(l *core.Limiter) *adapter.Engine[*request] {
			return adapter.New(l, key, adapter.Options[*request]{})
		},
		"NewTogether": func(l *core.Limiter) *adapter.Engine[*request] {
			return adapter.NewTogether([]middleware.Rule[func(*request) (string, error)]{{Limiter: l, Key: key}, {Limiter: other, Key: key}}, adapter.Options[*request]{})
		},
	} {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1)}}))
		x := &request{r: httptest.NewRequest(http.MethodGet, "/", nil), w: httptest.NewRecorder()}
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
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(10)}}))
	other := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "other", Limits: []core.Limit{core.PerDay(20)}}))
	key := func(*request) (string, error) { return "k", nil }
	options := adapter.Options[*request]{Options: middleware.Options[*request]{
		Cost:   func(*request) (int64, error) { return 3, nil },
		Refund: func(*request, int) bool { return true },
	}}
	for name, engine := range map[string]*adapter.Engine[*request]{
		"New":         adapter.New(limiter, key, options),
		"NewTogether": adapter.NewTogether([]middleware.Rule[func(*request) (string, error)]{{Limiter: limiter, Key: key}, {Limiter: other, Key: key}}, options),
	} {
		_, err := limiter.AllowN(t.Context(), "k", 5)
		require.NoError(t, err)
		x := &request{r: httptest.NewRequest(http.MethodGet, "/", nil), w: httptest.NewRecorder()}
		v := engine.Begin(x, x)
		require.Equal(t, middleware.Allowed, v.Verdict)
		for i, want := range []error{nil, core.ErrSettled} {
			res, ok := middleware.FromContext(x.Decision())
			require.True(t, ok)
			require.ErrorIs(t, res.Undo(t.Context()), want, "%s: Undo %d", name, i+1)
		}
		engine.Done(x, v, http.StatusOK)
		left, err := limiter.Peek(t.Context(), "k")
		require.NoError(t, err)
		assert.EqualValues(t, 5, left.Remaining, "%s: the tokens came back more than once, or never", name)
		require.NoError(t, limiter.Reset(t.Context(), "k"))
	}
}
