package connectlimit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/connectlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// The tests of core/middleware show when messages take, wait, end and hold
// slots.

func TestADeniedMessageEndsTheStream(t *testing.T) {
	handlerGot := make(chan error, 1)
	h := handlers{talk: func(ctx context.Context, s *bidi) error {
		_ = echo(ctx, s)
		_, err := s.Receive()
		handlerGot <- err
		<-ctx.Done() // a handler that waits for something else notices it
		return nil
	}}
	rules := []connectlimit.Rule{{Limiter: perHour("messages", 2), Key: byKey}, {Limiter: perHour("service", 99), Key: all}}
	for names, limits := range map[string]connect.Interceptor{
		"messages":          connectlimit.New(perHour("messages", 2), byKey, connectlimit.PerMessage()),
		"messages, service": connectlimit.NewTogether(rules, connectlimit.PerMessage()),
	} {
		t.Run(names, func(t *testing.T) {
			speak(t, serve(t, h, limits), func(t *testing.T, s server) {
				cs := s.open(t, s.protocol)
				require.NoError(t, say(cs), "the opening is free, the first message pays")
				require.NoError(t, say(cs))
				err := say(cs)
				require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err), "whatever the handler returns")
				retry, limits := detailsOf(err)
				assert.NotNil(t, retry)
				assert.Equal(t, []string{"messages"}, limits)
				assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(<-handlerGot), "the handler gets the denial again")
				for _, field := range append(fieldsOf, "Retry-After") {
					assert.NotEmpty(t, cs.ResponseTrailer()[field], "%s is a trailer", field)
					assert.Empty(t, cs.ResponseHeader()[field], "headers had gone")
				}
				if names == "messages, service" {
					assert.Contains(t, fmt.Sprint(cs.ResponseTrailer()["Ratelimit-Policy"]), `"service";q=99;w=3600`, "the fields of all limiters")
				}
			})
		})
	}
}

func TestUnaryCallsPayAlsoWithPerMessage(t *testing.T) {
	s := serve(t, handlers{}, connectlimit.New(perHour("messages", 1), all, connectlimit.PerMessage()))
	require.NoError(t, s.call(t, "").err)
	assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(s.call(t, "").err))
}

func TestAMessageThatWaitsPasses(t *testing.T) {
	const interval = 50 * time.Millisecond
	limiter := limiterOf(core.Policy{Name: "messages", Limits: []core.Limit{{Capacity: 1, RefillRate: 1, RefillInterval: interval}}})
	speak(t, serve(t, handlers{}, connectlimit.New(limiter, byKey, connectlimit.PerMessageWait())), func(t *testing.T, s server) {
		cs := s.open(t, s.protocol)
		start := time.Now()
		require.NoError(t, say(cs))
		require.NoError(t, say(cs))
		assert.GreaterOrEqual(t, time.Since(start), interval-time.Millisecond, "the second waits for its token")
	})
}

func TestAWaitEndsWithTheCall(t *testing.T) {
	over, denied := make(chan error, 1), make(chan struct{}, 1)
	h := handlers{talk: func(ctx context.Context, s *bidi) error {
		err := echo(ctx, s)
		over <- err
		return err
	}}
	hour := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "messages", Limits: []core.Limit{core.PerHour(1)}},
		core.WithObserver(func(_ context.Context, o core.Observation) {
			if o.Outcome == core.OutcomeDenied {
				denied <- struct{}{}
			}
		})))
	s := serve(t, h, connectlimit.New(hour, all, connectlimit.PerMessageWait()))
	ctx, cancel := context.WithCancel(t.Context())
	cs := s.openWithin(ctx, "")
	require.NoError(t, say(cs))
	_ = cs.Send(hello())
	<-denied
	cancel()
	_ = cs.CloseResponse()
	assert.Equal(t, connect.CodeCanceled, connect.CodeOf(<-over), "a client that has gone does not keep the handler")
}

// Connect receives the request of such a stream before the handler runs, and
// looks for the end of it.
func TestTheMessageOfAStreamOfTheServerIsOverWithItsHandler(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "messages", Limits: []core.Limit{core.InFlight(1)}})
	var held int64
	h := handlers{count: func(context.Context, *request, *connect.ServerStream[text]) error {
		held = limittest.Left(t, limiter, "all")
		return connect.NewError(connect.CodeNotFound, nil)
	}}
	codes := make(chan connect.Code, 1)
	refund := connectlimit.WithRefund(func(c *connectlimit.Call, code connect.Code) bool {
		assert.Equal(t, "hello", c.Message.(*text).GetValue())
		codes <- code
		return false
	})
	speak(t, serve(t, h, connectlimit.New(limiter, all, connectlimit.PerMessage(), refund)), func(t *testing.T, s server) {
		limittest.ComesBack(t, limiter, "all", 1, "the premise: the slot is free")
		cs, err := s.client(count, nil).CallServerStream(within(t), connect.NewRequest(hello()))
		require.NoError(t, err)
		require.False(t, cs.Receive())
		require.Equal(t, connect.CodeNotFound, connect.CodeOf(cs.Err()))
		require.Zero(t, held, "the message holds its slot while the handler is at work")
		assert.Equal(t, connect.CodeNotFound, <-codes, "it ends with the code of the handler")
	})
}

// A handler may send from one goroutine and receive from another one: the race
// detector watches.
func TestADeniedMessageWhileOthersAreSent(t *testing.T) {
	h := handlers{talk: func(ctx context.Context, s *bidi) error {
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for ctx.Err() == nil {
				if s.Send(hello()) != nil {
					return
				}
			}
		}()
		for {
			if _, err := s.Receive(); err != nil {
				<-sent
				return err
			}
		}
	}}
	speak(t, serve(t, h, connectlimit.New(perHour("messages", 3), byKey, connectlimit.PerMessage())), func(t *testing.T, s server) {
		cs := s.open(t, s.protocol)
		for range 4 { // no more: the end of the stream may come as an error of who still sends
			require.NoError(t, cs.Send(hello()))
		}
		var err error
		for err == nil {
			_, err = cs.Receive()
		}
		assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err))
		var e *connect.Error
		require.ErrorAs(t, err, &e)
		assert.Len(t, e.Meta()["Retry-After"], 1, "in the header, or if that has gone in the trailer")
	})
}
