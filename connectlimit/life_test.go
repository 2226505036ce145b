package connectlimit_test

import (
	"context"
	"errors"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/connectlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// recovers turns panics of handlers into errors, as an interceptor of an app
// does.
type recovers struct{}

func (recovers) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (_ connect.AnyResponse, err error) {
		defer recovered(&err)
		return next(ctx, req)
	}
}

func (recovers) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (recovers) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) (err error) {
		defer recovered(&err)
		return next(ctx, conn)
	}
}

func recovered(err *error) {
	if recover() != nil {
		*err = connect.NewError(connect.CodeInternal, errors.New("panic"))
	}
}

func TestSlotsComeBackWhenACallIsOver(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "slots", Limits: []core.Limit{core.InFlight(1)}})
	started, end := make(chan struct{}), make(chan func() error)
	at := func() error { started <- struct{}{}; return (<-end)() }
	h := handlers{
		once: func(_ context.Context, in *request) (*response, error) { return connect.NewResponse(in.Msg), at() },
		talk: func(context.Context, *bidi) error { return at() },
	}
	speak(t, serve(t, h, recovers{}, connectlimit.New(limiter, all)), func(t *testing.T, s server) {
		for mode, run := range map[string]func() error{
			"unary":  func() error { return s.call(t, "").err },
			"stream": func() error { return say(s.open(t, "")) },
		} {
			for how, over := range map[string]func() error{
				"succeeds": func() error { return nil },
				"fails":    func() error { return connect.NewError(connect.CodeNotFound, nil) },
				"panics":   func() error { panic("handler") },
			} {
				t.Run(mode+" that "+how, func(t *testing.T) {
					limittest.ComesBack(t, limiter, "all", 1, "the premise: the slot is free")
					result := make(chan error, 1)
					go func() { result <- run() }()
					<-started
					assert.EqualValues(t, 0, limittest.Left(t, limiter, "all"), "a call at work holds its slot")
					assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(run()), "no slot is left for another")
					end <- over
					<-result
					limittest.ComesBack(t, limiter, "all", 1, "the slot of a call that is over comes back")
				})
			}
		}
	})
}

func TestSlotsOfACancelledCallComeBack(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "slots", Limits: []core.Limit{core.InFlight(1)}})
	started := make(chan struct{})
	h := handlers{
		once: func(ctx context.Context, _ *request) (*response, error) {
			started <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		},
		talk: func(ctx context.Context, s *bidi) error {
			started <- struct{}{}
			_, err := s.Receive()
			return err
		},
	}
	speak(t, serve(t, h, connectlimit.New(limiter, all)), func(t *testing.T, s server) {
		for name, run := range map[string]func(ctx context.Context){
			"unary": func(ctx context.Context) { _, _ = s.client(once, nil).CallUnary(ctx, connect.NewRequest(hello())) },
			"stream": func(ctx context.Context) {
				cs := s.openWithin(ctx, "")
				_ = cs.Send(nil) // the headers
				_, _ = cs.Receive()
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan struct{})
			go func() { run(ctx); close(over) }()
			<-started
			assert.EqualValues(t, 0, limittest.Left(t, limiter, "all"), "the premise: the call holds its slot")
			cancel()
			<-over
			limittest.ComesBack(t, limiter, "all", 1, name+": the slot of a cancelled call comes back")
		}
	})
}

func TestRefundsGoByCode(t *testing.T) {
	var fails error
	var panics bool
	h := handlers{once: func(_ context.Context, in *request) (*response, error) {
		if panics {
			panic("handler")
		}
		if fails != nil {
			return nil, fails
		}
		return connect.NewResponse(in.Msg), nil
	}}
	var seen connect.Code
	limiter := perHour("logins", 5)
	refund := connectlimit.WithRefund(func(_ *connectlimit.Call, code connect.Code) bool {
		seen = code
		return code == connect.CodeNotFound
	})
	speak(t, serve(t, h, recovers{}, connectlimit.New(limiter, all, refund)), func(t *testing.T, s server) {
		require.NoError(t, limiter.Reset(t.Context(), "all"))
		for _, test := range []struct {
			err    error
			panics bool
			want   connect.Code
			left   int64
		}{
			{nil, false, 0, 4},
			{connect.NewError(connect.CodeNotFound, nil), false, connect.CodeNotFound, 4},
			{context.DeadlineExceeded, false, connect.CodeDeadlineExceeded, 3},
			{context.Canceled, false, connect.CodeCanceled, 2},
			{assert.AnError, false, connect.CodeUnknown, 1},
			{nil, true, connect.CodeInternal, 0},
		} {
			fails, panics = test.err, test.panics
			a := s.call(t, "")
			if test.want != 0 {
				assert.Equal(t, test.want, connect.CodeOf(a.err), "the premise: what the client gets")
			}
			assert.Equal(t, test.want, seen, "refund sees the code that the client gets, 0 for OK")
			assert.Equal(t, test.left, limittest.Left(t, limiter, "all"), "only NotFound gives the token back")
		}
	})
}

func TestUnitsAreTakenAndSettled(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "bytes", Limits: []core.Limit{{Unit: "bytes", Capacity: 100, RefillRate: 1, RefillInterval: 1e15}}})
	units := connectlimit.WithUnits(func(*connectlimit.Call) (core.Units, error) { return core.Units{"bytes": 40}, nil })
	var held int64
	h := handlers{
		once: func(_ context.Context, in *request) (*response, error) {
			held = limittest.Left(t, limiter, "all")
			return connect.NewResponse(in.Msg), nil
		},
		count: func(context.Context, *request, *connect.ServerStream[text]) error {
			held = limittest.Left(t, limiter, "all")
			return nil
		},
	}
	s := serve(t, h, connectlimit.New(limiter, all, units, connectlimit.WithSettle(func(c *connectlimit.Call, code connect.Code) core.Units {
		assert.Zero(t, code, "0 is OK")
		if c.StreamType == connect.StreamTypeServer {
			return core.Units{"bytes": 7}
		}
		return core.Units{"bytes": int64(len(c.Message.(*text).GetValue()))}
	})))
	require.NoError(t, s.call(t, "").err)
	assert.EqualValues(t, 60, held, "the estimate is taken before the handler runs")
	assert.EqualValues(t, 95, limittest.Left(t, limiter, "all"), "what was used is taken in the end")
	cs, err := s.client(count, nil).CallServerStream(within(t), connect.NewRequest(hello()))
	require.NoError(t, err)
	require.False(t, cs.Receive())
	assert.EqualValues(t, 55, held, "the estimate of a stream is taken when it opens")
	assert.EqualValues(t, 88, limittest.Left(t, limiter, "all"))
}

func TestRulesDecideTogether(t *testing.T) {
	users, whole := perHour("users", 2), perHour("all", 3)
	rules := []connectlimit.Rule{{Limiter: users, Key: byKey}, {Limiter: whole, Key: all}}
	s := serve(t, handlers{}, connectlimit.NewTogether(rules))
	require.NoError(t, s.call(t, "a").err)
	require.NoError(t, say(s.open(t, "a")))
	denied := s.call(t, "a")
	require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(denied.err))
	_, limits := details(t, denied.err)
	assert.Equal(t, []string{"users"}, limits)
	assert.EqualValues(t, 1, limittest.Left(t, whole, "all"), "a denied call takes nothing from any limiter")
}

func TestHandlersFindTheDecisions(t *testing.T) {
	outer, inner := perHour("outer", 9), perHour("inner", 5)
	check := func(ctx context.Context) {
		res, ok := connectlimit.FromContext(ctx)
		assert.True(t, ok)
		assert.EqualValues(t, 4, res.Remaining, "the decision of the limiter nearest to the handler")
		assert.Len(t, connectlimit.AllFromContext(ctx), 2)
	}
	h := handlers{
		once: func(ctx context.Context, in *request) (*response, error) {
			check(ctx)
			return connect.NewResponse(in.Msg), nil
		},
		talk: func(ctx context.Context, s *bidi) error { check(ctx); return echo(ctx, s) },
	}
	s := serve(t, h, connectlimit.New(outer, connectlimit.ByMethod()), connectlimit.New(inner, connectlimit.ByMethod()))
	require.NoError(t, s.call(t, "").err)
	require.NoError(t, say(s.open(t, "")))
	_, ok := connectlimit.FromContext(t.Context())
	assert.False(t, ok, "without an interceptor there is no decision")
}
