package grpclimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/grpclimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

var byKey = grpclimit.ByMetadata("x-api-key")

// fieldsOf are those of the limits.
var fieldsOf = []string{"ratelimit-policy", "ratelimit"}

func TestFieldsAreHeaderMetadataOfACallThatSucceeds(t *testing.T) {
	conn := unary(t, handlers{}, grpclimit.Unary(perHour("calls", 2), byKey))
	a := call(as(within(t), "a"), conn)
	require.NoError(t, a.err)
	assert.Equal(t, []string{`"calls";q=2;w=3600`}, a.header.Get("ratelimit-policy"), "names are in lower case, the values those of HTTP")
	assert.Len(t, a.header.Get("ratelimit"), 1)
	for _, field := range fieldsOf {
		assert.Empty(t, a.trailer.Get(field), "the fields are sent once")
	}
}

// With header metadata a client would not retry: neither denials nor the errors
// of handlers.
func TestFieldsAreTrailersOfACallThatFails(t *testing.T) {
	fails := handlers{once: func(context.Context, *text) (*text, error) { return nil, status.Error(codes.Unavailable, "busy") }}
	conn := unary(t, fails, grpclimit.Unary(perHour("calls", 1), byKey))
	for _, want := range []codes.Code{codes.Unavailable, codes.ResourceExhausted} {
		a := call(as(within(t), "a"), conn)
		require.Equal(t, want, status.Code(a.err))
		for _, field := range fieldsOf {
			assert.Empty(t, a.header.Get(field), "no header metadata: it would stop retries")
			assert.Len(t, a.trailer.Get(field), 1, "%s is a trailer of a call that failed with %v", field, want)
		}
	}
}

func TestFieldsAreTrailersIfTheHandlerHasSentTheHeader(t *testing.T) {
	sends := handlers{once: func(ctx context.Context, in *text) (*text, error) { return in, grpc.SendHeader(ctx, nil) }}
	a := call(within(t), unary(t, sends, grpclimit.Unary(perHour("calls", 1), grpclimit.Global("all"))))
	require.NoError(t, a.err)
	assert.Len(t, a.trailer.Get("ratelimit"), 1)
}

func TestFieldsOfSeveralLimitersAreOneList(t *testing.T) {
	all := grpclimit.Global("all")
	conn := unary(t, handlers{}, grpclimit.Unary(perHour("outer", 9), all), grpclimit.Unary(perHour("inner", 1), all))
	a := call(within(t), conn)
	require.NoError(t, a.err)
	policies := strings.Join(a.header.Get("ratelimit-policy"), ", ")
	assert.Contains(t, policies, `"outer";q=9;w=3600`)
	assert.Contains(t, policies, `"inner";q=1;w=3600`)
	a = call(within(t), conn)
	require.Equal(t, codes.ResourceExhausted, status.Code(a.err))
	assert.Empty(t, a.header.Get("ratelimit"), "a limiter in front that allowed the call sends no header if one behind denies it")
	assert.Contains(t, strings.Join(a.trailer.Get("ratelimit"), ", "), `"outer"`)
}

func TestADenialIsResourceExhaustedWithDetails(t *testing.T) {
	for _, mode := range []string{"unary", "stream"} {
		t.Run(mode, func(t *testing.T) {
			limiter := limiterOf(core.Policy{Name: "calls", Limits: []core.Limit{
				{Name: "hour", Capacity: 2, RefillRate: 2, RefillInterval: time.Hour}, {Name: "day", Capacity: 5, RefillRate: 5, RefillInterval: 24 * time.Hour},
			}})
			conn := serve(t, handlers{}, []grpc.UnaryServerInterceptor{grpclimit.Unary(limiter, byKey)}, []grpc.StreamServerInterceptor{grpclimit.Stream(limiter, byKey)})
			one := func(key string) error {
				if mode == "unary" {
					return call(as(within(t), key), conn).err
				}
				return say(open(as(within(t), key), t, conn))
			}
			require.NoError(t, one("a"))
			require.NoError(t, one("a"))
			err := one("a")
			require.Equal(t, codes.ResourceExhausted, status.Code(err))
			retry, limits := details(err)
			require.NotNil(t, retry, "RetryInfo says when to retry")
			assert.Greater(t, retry.GetRetryDelay().AsDuration(), time.Minute)
			assert.LessOrEqual(t, retry.GetRetryDelay().AsDuration(), 30*time.Minute)
			assert.Equal(t, []string{"hour"}, limits, "QuotaFailure names the limits that lack tokens, and no others")
			assert.NoError(t, one("b"), "another key has its own bucket")
		})
	}
}

func TestADenialThatNoWaitHelpsHasNoRetryInfo(t *testing.T) {
	costly := grpclimit.WithCost(func(*grpclimit.Call) (int64, error) { return 3, nil })
	a := call(within(t), unary(t, handlers{}, grpclimit.Unary(perHour("calls", 2), grpclimit.Global("all"), costly)))
	require.Equal(t, codes.ResourceExhausted, status.Code(a.err))
	retry, limits := details(a.err)
	assert.Nil(t, retry)
	assert.Equal(t, []string{"calls"}, limits)
	assert.Equal(t, []string{"-1"}, a.trailer.Get("grpc-retry-pushback-ms"), "clients must not retry")
}

const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
	"backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}`

// The client's own backoff is a millisecond: it waits because the server says
// so.
func TestAClientThatRetriesWaitsOutADenial(t *testing.T) {
	const wait = 300 * time.Millisecond
	for _, mode := range []string{"unary", "stream"} {
		t.Run(mode, func(t *testing.T) {
			c := limittest.ClockAt(time.Unix(1e9, 0))
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(c.Now)), core.Policy{
				Name: "calls", Limits: []core.Limit{{Capacity: 1, RefillRate: 1, RefillInterval: wait}},
			}))
			var denials atomic.Int32
			var denied, again time.Time
			moves := grpclimit.OnDenied(func(*grpclimit.Call, core.Result) error {
				denials.Add(1)
				denied = time.Now()
				c.Move(wait)
				return nil
			})
			h := handlers{
				once: func(_ context.Context, in *text) (*text, error) { again = time.Now(); return in, nil },
				talk: func(ss grpc.ServerStream) error { again = time.Now(); return echo(ss) },
			}
			all := grpclimit.Global("all")
			conn := serve(t, h, []grpc.UnaryServerInterceptor{grpclimit.Unary(limiter, all, moves)},
				[]grpc.StreamServerInterceptor{grpclimit.Stream(limiter, all, moves)}, grpc.WithDefaultServiceConfig(retries))
			for range 2 {
				if mode == "unary" {
					require.NoError(t, call(within(t), conn).err, "the client waits, and gets an answer")
				} else {
					require.NoError(t, say(open(within(t), t, conn)), "the client waits, and gets an answer")
				}
			}
			assert.EqualValues(t, 1, denials.Load(), "one denial, and one retry, which passes")
			assert.GreaterOrEqual(t, again.Sub(denied), wait, "the retry comes after what the denial said")
		})
	}
}

func TestAClientWithADeadlineThatComesFirstGetsTheDenialAtOnce(t *testing.T) {
	conn := serve(t, handlers{}, []grpc.UnaryServerInterceptor{grpclimit.Unary(perHour("calls", 1), grpclimit.Global("all"))}, nil, grpc.WithDefaultServiceConfig(retries))
	ctx := within(t) // its deadline is in a minute, the next token in an hour
	require.NoError(t, call(ctx, conn).err)
	a := call(ctx, conn)
	require.Equal(t, codes.ResourceExhausted, status.Code(a.err), "a client that waited would fail with DeadlineExceeded")
	assert.Equal(t, []string{"-1"}, a.trailer.Get("grpc-retry-pushback-ms"))
	assert.NoError(t, ctx.Err())
}

func TestAClientThatRetriesUnavailableTriesAgain(t *testing.T) {
	var tries atomic.Int32
	limiter := core.Must(core.NewLimiter(&limittest.AwayStore{Err: errAway}, core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(1)}, OnFailure: core.FailClosed}))
	counts := grpclimit.OnError(func(*grpclimit.Call, error) error { tries.Add(1); return nil })
	conn := serve(t, handlers{}, []grpc.UnaryServerInterceptor{grpclimit.Unary(limiter, grpclimit.Global("all"), counts)}, nil, grpc.WithDefaultServiceConfig(retries))
	require.Equal(t, codes.Unavailable, status.Code(call(within(t), conn).err))
	assert.EqualValues(t, 5, tries.Load(), "the client makes all its attempts")
}

type user struct{}

func TestCodesOfCallsWithoutADecision(t *testing.T) {
	closed := core.Must(core.NewLimiter(&limittest.AwayStore{Err: errAway}, core.Policy{Name: "closed", Limits: []core.Limit{core.PerHour(1)}, OnFailure: core.FailClosed}))
	fails := func(err error) grpclimit.KeyFunc { return func(*grpclimit.Call) (string, error) { return "", err } }
	unauthenticated := status.Error(codes.Unauthenticated, "who are you?")
	for name, test := range map[string]struct {
		limiter *core.Limiter
		key     grpclimit.KeyFunc
		want    codes.Code
	}{
		"without a key":                 {perHour("calls", 1), byKey, codes.InvalidArgument},
		"with an empty key":             {perHour("calls", 1), fails(nil), codes.InvalidArgument},
		"of a policy that fails closed": {closed, grpclimit.Global("all"), codes.Unavailable},
		"of a key function that fails":  {perHour("calls", 1), fails(errors.New("secret")), codes.Internal},
		"of a value without an identity": {perHour("calls", 1), func(c *grpclimit.Call) (string, error) {
			return grpclimit.ByContextValue(user{})(c)
		}, codes.InvalidArgument},
		"with an error of the client": {perHour("calls", 1), fails(fmt.Errorf("secret: %w", unauthenticated)), codes.Unauthenticated},
		"with an error of a service":  {perHour("calls", 1), fails(status.Error(codes.Unavailable, "secret")), codes.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			conn := serve(t, handlers{}, []grpc.UnaryServerInterceptor{grpclimit.Unary(test.limiter, test.key)}, []grpc.StreamServerInterceptor{grpclimit.Stream(test.limiter, test.key)})
			for _, err := range []error{call(within(t), conn).err, say(open(within(t), t, conn))} {
				require.Equal(t, test.want, status.Code(err), "a call %s", name)
				for _, inner := range []string{"secret", "6379", "x-api-key", "RL", "ratelimit:"} {
					assert.NotContains(t, fmt.Sprint(status.Convert(err).Proto()), inner, "nothing internal is in messages or details")
				}
				retry, _ := details(err)
				if test.want == codes.Unavailable {
					require.NotNil(t, retry, "FailClosed has RetryInfo")
					assert.Equal(t, time.Second, retry.GetRetryDelay().AsDuration(), "as Retry-After of HTTP")
				}
			}
		})
	}
}

func TestInternalErrorsAreLogged(t *testing.T) {
	var lines bytes.Buffer
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(1)}}, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil)))))
	conn := unary(t, handlers{}, grpclimit.Unary(limiter, func(*grpclimit.Call) (string, error) { return "", errors.New("no table users") }))
	require.Equal(t, codes.Internal, status.Code(call(within(t), conn).err))
	assert.Contains(t, lines.String(), "RL709")
	assert.Contains(t, lines.String(), "no table users", "the log has what clients don't see")
}

func TestACallWhoseContextHasEndedHasItsCode(t *testing.T) {
	intercept := grpclimit.Unary(perHour("calls", 9), grpclimit.Global("all"))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	for want, ctx := range map[codes.Code]context.Context{codes.Canceled: canceled, codes.DeadlineExceeded: late} {
		_, err := intercept(ctx, nil, &grpc.UnaryServerInfo{FullMethod: once}, func(context.Context, any) (any, error) {
			t.Error("the handler must not run")
			return "an answer", nil
		})
		assert.Equal(t, want, status.Code(err))
	}
}

func TestOnDeniedAndOnErrorAnswer(t *testing.T) {
	own := status.Error(codes.PermissionDenied, "pay first")
	conn := unary(t, handlers{}, grpclimit.Unary(perHour("calls", 1), byKey,
		grpclimit.OnDenied(func(c *grpclimit.Call, res core.Result) error {
			assert.Equal(t, once, c.FullMethod)
			assert.False(t, res.Allowed)
			return own
		}),
		grpclimit.OnError(func(_ *grpclimit.Call, err error) error {
			assert.ErrorIs(t, err, core.ErrNoKey)
			return status.Error(codes.Unauthenticated, "send x-api-key")
		})))
	require.NoError(t, call(as(within(t), "a"), conn).err)
	assert.Equal(t, codes.PermissionDenied, status.Code(call(as(within(t), "a"), conn).err))
	assert.Equal(t, codes.Unauthenticated, status.Code(call(within(t), conn).err))
}

func TestShadowModeRefusesNothing(t *testing.T) {
	shadow := limiterOf(core.Policy{Name: "shadow", Shadow: true, Limits: []core.Limit{core.PerHour(1)}})
	conn := serve(t, handlers{}, []grpc.UnaryServerInterceptor{grpclimit.Unary(shadow, byKey)},
		[]grpc.StreamServerInterceptor{grpclimit.Stream(shadow, byKey, grpclimit.PerMessage())})
	cs := open(as(within(t), "a"), t, conn)
	for range 3 {
		assert.NoError(t, call(as(within(t), "a"), conn).err, "a call above the limit passes")
		assert.NoError(t, call(within(t), conn).err, "a call without a key passes")
		assert.NoError(t, say(cs), "a message passes")
	}
}
