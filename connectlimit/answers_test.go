package connectlimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tokenbucket-go/ratelimit/connectlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

func TestADenialIsResourceExhaustedWithDetails(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "calls", Limits: []core.Limit{
		{Name: "hour", Capacity: 2, RefillRate: 2, RefillInterval: time.Hour}, {Name: "day", Capacity: 5, RefillRate: 5, RefillInterval: 24 * time.Hour},
	}})
	speak(t, serve(t, handlers{}, connectlimit.New(limiter, byKey)), func(t *testing.T, s server) {
		for mode, one := range map[string]func(key string) error{
			"unary":  func(key string) error { return s.call(t, key).err },
			"stream": func(key string) error { return say(s.open(t, key)) },
		} {
			me, other := s.protocol+mode, "not"+s.protocol+mode
			require.NoError(t, one(me))
			require.NoError(t, one(me))
			err := one(me)
			require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err), mode)
			retry, limits := details(t, err)
			require.NotNil(t, retry, "RetryInfo says when to retry")
			assert.Greater(t, retry.GetRetryDelay().AsDuration(), time.Minute)
			assert.LessOrEqual(t, retry.GetRetryDelay().AsDuration(), 30*time.Minute)
			assert.Equal(t, []string{"hour"}, limits, "QuotaFailure names the limits that lack tokens, and no others")
			assert.NoError(t, one(other), "another key has its own bucket")
		}
	})
}

func TestADenialThatNoWaitHelpsSaysNothingOfRetries(t *testing.T) {
	costly := connectlimit.WithCost(func(*connectlimit.Call) (int64, error) { return 3, nil })
	speak(t, serve(t, handlers{}, connectlimit.New(perHour("calls", 2), all, costly)), func(t *testing.T, s server) {
		a := s.call(t, "")
		require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(a.err))
		retry, limits := details(t, a.err)
		assert.Nil(t, retry)
		assert.Equal(t, []string{"calls"}, limits)
		assert.Empty(t, a.meta["Retry-After"])
	})
}

type user struct{}

func TestCodesOfCallsWithoutADecision(t *testing.T) {
	closed := core.Must(core.NewLimiter(&limittest.AwayStore{Err: errAway}, core.Policy{Name: "closed", Limits: []core.Limit{core.PerHour(1)}, OnFailure: core.FailClosed}))
	fails := func(err error) connectlimit.KeyFunc {
		return func(*connectlimit.Call) (string, error) { return "", err }
	}
	unauthenticated := connect.NewError(connect.CodeUnauthenticated, errors.New("who are you?"))
	unauthenticated.Meta().Set("X-Realm", "files")
	detail, err := connect.NewErrorDetail(wrapperspb.String("log in"))
	require.NoError(t, err)
	unauthenticated.AddDetail(detail)
	for name, test := range map[string]struct {
		limiter *core.Limiter
		key     connectlimit.KeyFunc
		want    connect.Code
	}{
		"without a key":                  {perHour("calls", 1), byKey, connect.CodeInvalidArgument},
		"with an empty key":              {perHour("calls", 1), fails(nil), connect.CodeInvalidArgument},
		"of a policy that fails closed":  {closed, connectlimit.Global("all"), connect.CodeUnavailable},
		"of a key function that fails":   {perHour("calls", 1), fails(errors.New("secret")), connect.CodeInternal},
		"of a value without an identity": {perHour("calls", 1), connectlimit.ByContextValue(user{}), connect.CodeInvalidArgument},
		"with an error of the client":    {perHour("calls", 1), fails(fmt.Errorf("secret: %w", unauthenticated)), connect.CodeUnauthenticated},
		"with an error of a service":     {perHour("calls", 1), fails(connect.NewError(connect.CodeUnavailable, errors.New("secret"))), connect.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			speak(t, serve(t, handlers{}, connectlimit.New(test.limiter, test.key)), func(t *testing.T, s server) {
				for _, err := range []error{s.call(t, "").err, say(s.open(t, ""))} {
					var e *connect.Error
					require.ErrorAs(t, err, &e)
					require.Equal(t, test.want, e.Code(), "a call %s", name)
					seen := fmt.Sprint(err, e.Meta())
					for _, d := range e.Details() {
						value, err := d.Value()
						require.NoError(t, err)
						seen += fmt.Sprint(value)
					}
					for _, inner := range []string{"secret", "6379", "x-api-key", "RL", "ratelimit:"} {
						assert.NotContains(t, seen, inner, "nothing internal is in messages, details or metadata")
					}
					retry, _ := details(t, err)
					switch test.want {
					case connect.CodeUnavailable:
						require.NotNil(t, retry, "FailClosed has RetryInfo")
						assert.Equal(t, time.Second, retry.GetRetryDelay().AsDuration())
						assert.Equal(t, []string{"1"}, e.Meta()["Retry-After"], "as with HTTP")
						if s.protocol == connect.ProtocolConnect {
							assert.Equal(t, []string{"no-store"}, e.Meta()["Cache-Control"], "as with HTTP")
						}
					case connect.CodeUnauthenticated:
						assert.Equal(t, "who are you?", e.Message(), "an error of the client is answered as it is")
						assert.Equal(t, "files", e.Meta().Get("X-Realm"), "with its metadata")
						assert.Len(t, e.Details(), 1, "and its details")
					default:
						assert.Nil(t, retry)
						assert.Empty(t, e.Meta()["Retry-After"])
					}
				}
			})
		})
	}
}

func TestInternalErrorsAreLogged(t *testing.T) {
	var lines bytes.Buffer
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(1)}}, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil)))))
	s := serve(t, handlers{}, connectlimit.New(limiter, func(*connectlimit.Call) (string, error) { return "", errors.New("no table users") }))
	require.Equal(t, connect.CodeInternal, connect.CodeOf(s.call(t, "").err))
	assert.Contains(t, lines.String(), "RL709")
	assert.Contains(t, lines.String(), "no table users", "the log has what clients don't see")
}

// It also shows that tests of apps can call an interceptor without a server.
func TestACallWhoseContextHasEndedHasItsCode(t *testing.T) {
	limits := connectlimit.New(perHour("calls", 9), all)
	unary := limits.WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
		t.Error("the handler must not run")
		return connect.NewResponse(hello()), nil
	})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	for want, ctx := range map[connect.Code]context.Context{connect.CodeCanceled: canceled, connect.CodeDeadlineExceeded: late} {
		_, err := unary(ctx, connect.NewRequest(hello()))
		assert.Equal(t, want, connect.CodeOf(err))
	}
}

func TestOnDeniedAndOnErrorAnswer(t *testing.T) {
	own := connect.NewError(connect.CodePermissionDenied, errors.New("pay first"))
	limits := connectlimit.New(perHour("calls", 1), byKey,
		connectlimit.OnDenied(func(c *connectlimit.Call, res core.Result) error {
			assert.Contains(t, []string{once, talk}, c.Procedure)
			assert.False(t, res.Allowed)
			if c.Header().Get("X-Api-Key") == "default" {
				return nil
			}
			return own
		}),
		connectlimit.OnError(func(_ *connectlimit.Call, err error) error {
			assert.ErrorIs(t, err, core.ErrNoKey)
			return connect.NewError(connect.CodeUnauthenticated, errors.New("send X-Api-Key"))
		}))
	speak(t, serve(t, handlers{}, limits), func(t *testing.T, s server) {
		key := "key of " + s.protocol
		require.NoError(t, s.call(t, key).err)
		a := s.call(t, key)
		assert.Equal(t, connect.CodePermissionDenied, connect.CodeOf(a.err))
		assert.Len(t, a.meta["Retry-After"], 1, "the fields go with an answer of the app's own")
		assert.Equal(t, connect.CodePermissionDenied, connect.CodeOf(say(s.open(t, key))))
		assert.Equal(t, connect.CodeUnauthenticated, connect.CodeOf(s.call(t, "").err))
		_ = s.call(t, "default")
		assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(s.call(t, "default").err), "nil means the default answer")
	})
}

func TestShadowModeRefusesNothing(t *testing.T) {
	shadow := limiterOf(core.Policy{Name: "shadow", Shadow: true, Limits: []core.Limit{core.PerHour(1)}})
	s := serve(t, handlers{}, connectlimit.New(shadow, byKey), connectlimit.New(shadow, byKey, connectlimit.PerMessage()))
	cs := s.open(t, "a")
	for range 3 {
		assert.NoError(t, s.call(t, "a").err, "a call above the limit passes")
		assert.NoError(t, s.call(t, "").err, "a call without a key passes")
		assert.NoError(t, say(cs), "a message passes")
	}
}

func TestAKeyFunctionWhoseOwnCallEndsWithTheClientsHasNotFailed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := connect.NewError(connect.CodeCanceled, errors.New("the other service was told"))
	key := func(*connectlimit.Call) (string, error) { cancel(); return "", asked }
	_, err := connectlimit.New(perHour("calls", 9), key).WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
		t.Error("the handler must not run")
		return connect.NewResponse(hello()), nil
	})(ctx, connect.NewRequest(hello()))
	assert.Equal(t, connect.CodeCanceled, connect.CodeOf(err), "the client has gone: that is no failure of the service")
	_, err = connectlimit.New(perHour("calls", 9), func(*connectlimit.Call) (string, error) { return "", asked }).WrapUnary(nil)(t.Context(), connect.NewRequest(hello()))
	assert.Equal(t, connect.CodeInternal, connect.CodeOf(err), "while the client waits, it is a failure")
}
