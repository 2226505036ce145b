package grpclimit_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/grpclimit"
)

// paced returns the options of a connection whose calls a Pacer holds back.
func paced(t *testing.T, p grpclimit.Pacing) []grpc.DialOption {
	t.Helper()
	pacer, err := grpclimit.NewPacer(p)
	require.NoError(t, err)
	return by(pacer)
}

func by(p *grpclimit.Pacer) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(p.UnaryClient), grpc.WithChainStreamInterceptor(p.StreamClient)}
}

// refusal is the status of a call that is to come again after d.
func refusal(code codes.Code, d time.Duration) error {
	s, err := status.New(code, "no").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		return err
	}
	return s.Err()
}

func order(ctx context.Context, conn *grpc.ClientConn) error {
	return conn.Invoke(ctx, once, &text{Value: "order 7"}, new(text))
}

// The first refusal holds back all calls, and all are served in the end.
func TestPacerHeedsRetryInfo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pacer := core.Must(grpclimit.NewPacer(grpclimit.Pacing{}))
		conn, err := grpc.NewClient("passthrough:///server", grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer conn.Close()
		var refused, served atomic.Int64
		until := time.Now().Add(300 * time.Millisecond)
		server := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			time.Sleep(time.Millisecond)
			if time.Now().Before(until) {
				refused.Add(1)
				return refusal(codes.ResourceExhausted, time.Until(until))
			}
			served.Add(1)
			return nil
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { assert.NoError(t, pacer.UnaryClient(t.Context(), once, nil, nil, conn, server)) })
		}
		all.Wait()
		assert.Equal(t, int64(20), served.Load())
		assert.Equal(t, int64(1), refused.Load(), "one call asks whether the server is there, and its refusal holds back the others")
	})
}

// This library's own server refuses, and its client comes back in time.
func TestPacerHeedsOurServers(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "server", Limits: []core.Limit{core.PerSecond(5).WithBurst(2)}}))
	conn := serve(t, handlers{}, []grpc.UnaryServerInterceptor{grpclimit.Unary(limiter, grpclimit.Global("all"))}, nil, paced(t, grpclimit.Pacing{})...)
	for range 4 {
		assert.NoError(t, order(t.Context(), conn))
	}
}

func TestPacerLeavesOtherErrorsToTheCaller(t *testing.T) {
	for rule, c := range map[string]struct {
		err    error
		pacing grpclimit.Pacing
		want   int64
	}{
		"ResourceExhausted without advice":     {status.Error(codes.ResourceExhausted, "message too large"), grpclimit.Pacing{}, 1},
		"Unavailable":                          {status.Error(codes.Unavailable, "no"), grpclimit.Pacing{}, 1},
		"Unavailable that may not be repeated": {refusal(codes.Unavailable, time.Millisecond), grpclimit.Pacing{}, 1},
		"Unavailable that may be repeated":     {refusal(codes.Unavailable, time.Millisecond), grpclimit.Pacing{Attempts: 3, Repeats: func(string) bool { return true }}, 3},
		"a refusal of an hour":                 {refusal(codes.ResourceExhausted, time.Hour), grpclimit.Pacing{}, 1},
		"refusals without end":                 {refusal(codes.ResourceExhausted, time.Millisecond), grpclimit.Pacing{Attempts: 4}, 4},
	} {
		var calls atomic.Int64
		conn := serve(t, handlers{once: func(context.Context, *text) (*text, error) { calls.Add(1); return nil, c.err }}, nil, nil, paced(t, c.pacing)...)
		err := order(t.Context(), conn)
		assert.Equal(t, status.Code(c.err), status.Code(err), rule)
		assert.Equal(t, c.want, calls.Load(), rule)
	}
}

func TestPacerSaysUntilWhen(t *testing.T) {
	pacer, err := grpclimit.NewPacer(grpclimit.Pacing{})
	require.NoError(t, err)
	conn := serve(t, handlers{once: func(context.Context, *text) (*text, error) {
		return nil, refusal(codes.ResourceExhausted, time.Hour)
	}}, nil, nil, by(pacer)...)
	require.Error(t, order(t.Context(), conn))
	err = order(t.Context(), conn)
	var wait *clientlimit.Error
	require.True(t, errors.As(err, &wait) && errors.Is(err, core.ErrDeadline), err)
	assert.Greater(t, time.Until(pacer.State(wait.Key).PausedUntil), 50*time.Minute)
	assert.True(t, strings.HasPrefix(wait.Key, "target:") && time.Until(wait.Until) > 50*time.Minute, wait)
}

// Streams tell of limits by their header, and each that is refused begins a
// pause, although a stream's end is noticed elsewhere at the same time.
func TestPacerHearsStreams(t *testing.T) {
	var calls, refused atomic.Int64
	key := func(context.Context, string, string) (string, error) { return strconv.FormatInt(calls.Load(), 10), nil }
	pacer := core.Must(grpclimit.NewPacer(grpclimit.Pacing{Key: key, Observer: func(_ context.Context, e clientlimit.Event) {
		if e.Kind == clientlimit.Refused {
			refused.Add(1)
		}
	}}))
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "server", Limits: []core.Limit{core.PerHour(60)}}))
	conn := serve(t, handlers{}, nil, []grpc.StreamServerInterceptor{grpclimit.Stream(limiter, grpclimit.Global("all"))}, by(pacer)...)
	require.NoError(t, say(open(within(t), t, conn)))
	if s := pacer.State("0"); s.Rate <= 0 || s.Rate > 60.0/3600 {
		t.Errorf("%+v: want a rate from the fields in the header", s)
	}
	for core.Must(limiter.Allow(t.Context(), "global:all")).Allowed {
	}
	const streams = 1000
	for calls.Add(1) <= streams {
		require.Error(t, open(within(t), t, conn).RecvMsg(new(text)))
	}
	assert.Equal(t, int64(streams), refused.Load())
}

// gRPC's own retries of streams go on below a Pacer: the service config says
// which.
func TestPacerLeavesRetriesOfStreams(t *testing.T) {
	var calls atomic.Int64
	conn := serve(t, handlers{talk: func(ss grpc.ServerStream) error {
		if calls.Add(1) < 3 {
			return status.Error(codes.Unavailable, "no")
		}
		return echo(ss)
	}}, nil, nil, append(paced(t, grpclimit.Pacing{}), grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}],
		"retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`))...)
	assert.NoError(t, say(open(within(t), t, conn)))
	assert.Equal(t, int64(3), calls.Load())
}

// A stream holds its slot until it is over, however it ends.
func TestPacerHoldsSlotsOfStreams(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{core.InFlight(1)}}))
	key := func(context.Context, string, string) (string, error) { return "all", nil }
	conn := serve(t, handlers{}, nil, nil, paced(t, grpclimit.Pacing{Limiter: limiter, Key: key})...)
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	for rule, end := range map[string]func(s grpc.ClientStream, cancel func()) error{
		"read to its end": func(s grpc.ClientStream, _ func()) error {
			return errors.Join(s.CloseSend(), ended(s.RecvMsg(new(text))))
		},
		"canceled": func(_ grpc.ClientStream, cancel func()) error { cancel(); return nil },
		"a message that can't be sent": func(s grpc.ClientStream, _ func()) error {
			if s.SendMsg("no message") == nil {
				return errors.New("want an error, which ends the stream")
			}
			return nil
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s, err := conn.NewStream(ctx, desc, talk)
		require.NoError(t, err, rule)
		require.NoError(t, s.SendMsg(&text{Value: "hello"}))
		require.NoError(t, s.RecvMsg(new(text)))
		res, err := limiter.Allow(t.Context(), "all")
		require.NoError(t, err)
		assert.False(t, res.Allowed, "%s: the stream has the slot", rule)
		require.NoError(t, end(s, cancel))
		assert.NoError(t, order(t.Context(), conn), "%s: the slot is free again", rule)
		cancel()
	}
}
