package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/grpclimit"
)

// The tests of core/middleware show when messages take, wait, end and hold
// slots.

// ended is what a handler returns when the client has closed its side.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func TestAStreamPaysWhenItOpens(t *testing.T) {
	conn := streams(t, handlers{}, grpclimit.Stream(perHour("streams", 1), all))
	cs := open(within(t), t, conn)
	for range 5 {
		require.NoError(t, say(cs), "messages are free")
	}
	header, err := cs.Header()
	require.NoError(t, err)
	assert.Equal(t, []string{`"streams";q=1;w=3600`}, header.Get("ratelimit-policy"), "the fields are header metadata")
	assert.Equal(t, codes.ResourceExhausted, status.Code(say(open(within(t), t, conn))), "another stream is denied")
}

func TestADeniedMessageEndsTheStream(t *testing.T) {
	rule := func(name string, n int) grpclimit.Rule { return grpclimit.Rule{Limiter: perHour(name, n), Key: all} }
	single, several := rule("messages", 2), []grpclimit.Rule{rule("messages", 2), rule("others", 9)}
	for name, interceptor := range map[string]grpc.StreamServerInterceptor{
		"one limiter":      grpclimit.Stream(single.Limiter, all, grpclimit.PerMessage()),
		"several limiters": grpclimit.StreamTogether(several, grpclimit.PerMessage()),
	} {
		t.Run(name, func(t *testing.T) {
			handlerGot := make(chan error, 1)
			h := handlers{talk: func(ss grpc.ServerStream) error {
				_ = echo(ss)
				handlerGot <- ss.RecvMsg(new(text))
				<-ss.Context().Done() // a handler that waits for something else notices it
				return nil
			}}
			cs := open(within(t), t, streams(t, h, interceptor))
			require.NoError(t, say(cs), "the opening is free, the first message pays")
			require.NoError(t, say(cs))
			err := say(cs)
			require.Equal(t, codes.ResourceExhausted, status.Code(err), "whatever the handler returns")
			retry, limits := details(err)
			assert.NotNil(t, retry)
			assert.Equal(t, []string{"messages"}, limits)
			assert.Equal(t, codes.ResourceExhausted, status.Code(<-handlerGot), "the handler gets the denial again")
			header, err := cs.Header()
			require.NoError(t, err)
			assert.Empty(t, header.Get("ratelimit"), "messages that pass have no fields")
			assert.Contains(t, fmt.Sprint(cs.Trailer().Get("ratelimit")), `"messages";r=0;`, "a denied one has them as trailers")
			assert.Len(t, cs.Trailer().Get("retry-after"), 1)
			assert.Equal(t, []string{"-1"}, cs.Trailer().Get("grpc-retry-pushback-ms"))
		})
	}
}

func TestTheLastMessageEndsWithTheStreamsCode(t *testing.T) {
	codesOf := make(chan codes.Code, 1)
	refund := grpclimit.WithRefund(func(c *grpclimit.Call, code codes.Code) bool {
		assert.Equal(t, "hello", c.Message.(*text).GetValue())
		codesOf <- code
		return true
	})
	h := handlers{talk: func(ss grpc.ServerStream) error {
		return errors.Join(ss.RecvMsg(new(text)), status.Error(codes.NotFound, ""))
	}}
	_ = say(open(within(t), t, streams(t, h, grpclimit.Stream(perHour("messages", 1), all, grpclimit.PerMessage(), refund))))
	assert.Equal(t, codes.NotFound, <-codesOf)
}

func TestAMessageThatWaitsPasses(t *testing.T) {
	const interval = 50 * time.Millisecond
	limiter := limiterOf(core.Policy{Name: "messages", Limits: []core.Limit{{Capacity: 1, RefillRate: 1, RefillInterval: interval}}})
	cs := open(within(t), t, streams(t, handlers{}, grpclimit.Stream(limiter, all, grpclimit.PerMessageWait())))
	start := time.Now()
	require.NoError(t, say(cs))
	require.NoError(t, say(cs))
	assert.GreaterOrEqual(t, time.Since(start), interval-time.Millisecond, "the second waits for its token")
}

func TestAWaitEndsWithTheCall(t *testing.T) {
	over, denied := make(chan error, 1), make(chan struct{})
	h := handlers{talk: func(ss grpc.ServerStream) error {
		err := echo(ss)
		over <- err
		return err
	}}
	hour := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "messages", Limits: []core.Limit{core.PerHour(1)}},
		core.WithObserver(func(_ context.Context, o core.Observation) {
			if o.Outcome == core.OutcomeDenied {
				close(denied)
			}
		})))
	ctx, cancel := context.WithCancel(t.Context())
	cs := open(ctx, t, streams(t, h, grpclimit.Stream(hour, all, grpclimit.PerMessageWait())))
	require.NoError(t, say(cs))
	_ = cs.SendMsg(new(text))
	<-denied
	cancel()
	assert.Equal(t, codes.Canceled, status.Code(<-over), "a client that has gone does not keep the handler")
}
