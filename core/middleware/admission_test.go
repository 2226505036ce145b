package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

var errOfClient, errInside = errors.New("the client's fault"), errors.New("inside")

// A call without a decision has the cause of its error, which each protocol
// answers in its own terms.
func TestCauseOfAFailure(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	protocol := middleware.Protocol[*call]{ClientError: func(_ *call, err error) bool { return errors.Is(err, errOfClient) }}
	for name, test := range map[string]struct {
		ctx  context.Context
		err  error
		want middleware.Cause
	}{
		"no key":                           {t.Context(), fmt.Errorf("login: %w", core.ErrNoKey), middleware.NoKey},
		"a bad key":                        {t.Context(), core.ErrBadKey, middleware.NoKey},
		"the protocol's own":               {t.Context(), errOfClient, middleware.ClientError},
		"the protocol's own, without keys": {t.Context(), fmt.Errorf("%w: %w", errOfClient, core.ErrNoKey), middleware.ClientError},
		"any other":                        {t.Context(), errInside, middleware.Internal},
		"any other, of a call that ended":  {ended, errInside, middleware.Internal},
		"a call that ended":                {ended, fmt.Errorf("login: %w", context.Canceled), middleware.Ended},
		"a store that is away":             {t.Context(), core.ErrUnavailable, middleware.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(1)}}))
			key := func(*call) (string, error) { return "ann", nil }
			failing := func(*call) (int64, error) { return 0, test.err }
			for which, engine := range map[string]*middleware.Engine[*call]{
				"key":  middleware.New(limiter, func(*call) (string, error) { return "", test.err }, middleware.Options[*call]{}, protocol),
				"cost": middleware.New(limiter, key, middleware.Options[*call]{Cost: failing}, protocol),
			} {
				c := &call{ctx: test.ctx, method: "/files.Files/Read"}
				a := engine.Begin(c, c)
				require.Equal(t, middleware.Failed, a.Verdict, which)
				assert.Equal(t, test.want, a.Cause, "%s: the cause of %v", which, a.Err)
				require.ErrorIs(t, a.Err, test.err, which)
				assert.False(t, engine.End(c, &a, ok), "%s: a call without a decision has nothing to refund", which)
			}
		})
	}
}
