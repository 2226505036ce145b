package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
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

// TestConformance shows what the answers of all adapters have in common. The
// tests of this file show what only gRPC has: metadata, trailers, and clients
// that retry.

var byKey = grpclimit.ByMetadata("x-api-key")

// all is a key that all calls have.
func all(*grpclimit.Call) (string, error) { return "all", nil }

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
	conn := unary(t, fails, grpclimit.Unary(perHour("outer", 9), all), grpclimit.Unary(perHour("inner", 1), all))
	for _, want := range []codes.Code{codes.Unavailable, codes.ResourceExhausted} {
		a := call(within(t), conn)
		require.Equal(t, want, status.Code(a.err))
		for _, field := range fieldsOf {
			assert.Empty(t, a.header.Get(field), "no header metadata: it would stop retries")
			for _, limit := range []string{`"outer"`, `"inner"`} {
				assert.Equal(t, 1, strings.Count(fmt.Sprint(a.trailer.Get(field)), limit), "%s is a trailer of a call that failed with %v", field, want)
			}
		}
	}
}

func TestFieldsAreTrailersIfTheHandlerHasSentTheHeader(t *testing.T) {
	sends := handlers{once: func(ctx context.Context, in *text) (*text, error) { return in, grpc.SendHeader(ctx, nil) }}
	a := call(within(t), unary(t, sends, grpclimit.Unary(perHour("calls", 1), all)))
	require.NoError(t, a.err)
	assert.Len(t, a.trailer.Get("ratelimit"), 1)
}

const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
	"backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}`

// retrying serves h behind an interceptor, for a client that retries.
func retrying(t *testing.T, h handlers, interceptor grpc.UnaryServerInterceptor) *grpc.ClientConn {
	t.Helper()
	return serve(t, h, []grpc.UnaryServerInterceptor{interceptor}, nil, grpc.WithDefaultServiceConfig(retries))
}

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

func TestAClientThatCannotWaitGetsTheDenialAtOnce(t *testing.T) {
	for name, cost := range map[string]int64{"its deadline comes first": 1, "no wait is long enough": 3} {
		costs := grpclimit.WithCost(func(*grpclimit.Call) (int64, error) { return cost, nil })
		conn := retrying(t, handlers{}, grpclimit.Unary(perHour("calls", 1), all, costs))
		ctx := within(t) // its deadline is in a minute, the next token in an hour
		_ = call(ctx, conn)
		a := call(ctx, conn)
		require.Equal(t, codes.ResourceExhausted, status.Code(a.err), "%s: a client that waited would fail with DeadlineExceeded", name)
		assert.Equal(t, []string{"-1"}, a.trailer.Get("grpc-retry-pushback-ms"), name)
		assert.NoError(t, ctx.Err(), name)
	}
}

func TestAClientThatRetriesUnavailableTriesAgain(t *testing.T) {
	var tries atomic.Int32
	away := limittest.Limiter(t, &limittest.AwayStore{Err: errors.New("away")}, "calls", core.PerHour(1))
	counts := grpclimit.OnError(func(*grpclimit.Call, error) error { tries.Add(1); return nil })
	conn := retrying(t, handlers{}, grpclimit.Unary(away, all, counts))
	require.Equal(t, codes.Unavailable, status.Code(call(within(t), conn).err))
	assert.EqualValues(t, 5, tries.Load(), "the client makes all its attempts")
}

// A handler may go on without the token, such as with a cheaper answer.
func TestADenialThatTheHandlerIgnoresStopsNoRetries(t *testing.T) {
	tenant := perHour("tenant", 1)
	var tries atomic.Int32
	h := handlers{once: func(ctx context.Context, in *text) (*text, error) {
		if _, err := grpclimit.Allow(ctx, tenant, "t"); err != nil && in.GetValue() == "strict" {
			return nil, err
		}
		if tries.Add(1) == 2 {
			return nil, status.Error(codes.Unavailable, "busy")
		}
		return in, nil
	}}
	conn := retrying(t, h, grpclimit.Unary(perHour("calls", 9), all))
	require.NoError(t, call(within(t), conn).err)
	a := call(within(t), conn)
	assert.NoError(t, a.err, "the client tries again")
	assert.EqualValues(t, 3, tries.Load())
	assert.Empty(t, a.trailer.Get("grpc-retry-pushback-ms"), "the call is not denied")
	err := conn.Invoke(within(t), once, &text{Value: "strict"}, new(text), grpc.Trailer(&a.trailer))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.Equal(t, []string{"-1"}, a.trailer.Get("grpc-retry-pushback-ms"), "a call that is denied has it")
}

func TestAnErrorOfTheClientIsAnsweredWithoutTheTextAround(t *testing.T) {
	key := func(*grpclimit.Call) (string, error) {
		return "", fmt.Errorf("no such row: %w", status.Error(codes.Unauthenticated, "who are you?"))
	}
	err := call(within(t), unary(t, handlers{}, grpclimit.Unary(perHour("calls", 1), key))).err
	assert.Equal(t, codes.Unauthenticated, status.Code(err))
	assert.Equal(t, "who are you?", status.Convert(err).Message())
}

func TestAKeyFunctionWhoseOwnCallEndsWithTheClientsHasNotFailed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	key := func(*grpclimit.Call) (string, error) {
		cancel()
		return "", status.Error(codes.Canceled, "the other service was told")
	}
	intercept := grpclimit.Unary(perHour("calls", 9), key)
	for want, ctx := range map[codes.Code]context.Context{codes.Canceled: ctx, codes.Internal: t.Context()} {
		_, err := intercept(ctx, nil, &grpc.UnaryServerInfo{FullMethod: once}, nil)
		assert.Equal(t, want, status.Code(err), "it has failed if the client still waits")
	}
}

func TestRefundsSeeTheCodeThatTheClientGets(t *testing.T) {
	var fails error
	var seen codes.Code
	refund := grpclimit.WithRefund(func(_ *grpclimit.Call, code codes.Code) bool { seen = code; return true })
	h := handlers{once: func(_ context.Context, in *text) (*text, error) { return in, fails }}
	conn := unary(t, h, grpclimit.Unary(perHour("logins", 1), all, refund))
	for _, fails = range []error{nil, context.DeadlineExceeded, context.Canceled, assert.AnError, status.Error(codes.DataLoss, "")} {
		assert.Equal(t, status.Code(call(within(t), conn).err), seen, "of %v", fails)
	}
}
