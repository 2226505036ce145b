package adapter_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// The user's own middleware may call ByRoute between limiters. The note that it
// leaves with the request is not a decision.
func TestByRouteBetweenLimitersKeepsTheDecision(t *testing.T) {
	engine := func(policy string) *adapter.Engine[*request] {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: policy, Limits: []core.Limit{core.PerHour(5)}}))
		return adapter.New(limiter, func(x *request) (string, error) { return adapter.ByRoute("")(x) }, adapter.Options[*request]{})
	}
	x := &request{r: httptest.NewRequest(http.MethodGet, "/", nil), w: httptest.NewRecorder()}
	for i := range 3 {
		_, err := adapter.ByRoute("")(x)
		require.NoError(t, err)
		v := engine([]string{"a", "b", "c"}[i]).Begin(x, x)
		require.Equal(t, middleware.Allowed, v.Verdict)
		got, ok := middleware.FromContext(x.Decision())
		require.True(t, ok)
		assert.Equal(t, v.Result().Limits(), got.Limits())
		_, err = adapter.ByRoute("")(x)
		require.NoError(t, err)
		got, ok = middleware.FromContext(x.Decision())
		assert.True(t, ok)
		assert.Equal(t, v.Result().Limits(), got.Limits(), "the nearest limiter's decision is kept")
	}
}
