package connectlimit_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/connectlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// paced returns a client of a procedure whose calls a Pacer holds back.
func (s server) paced(t *testing.T, procedure string, p connectlimit.Pacing) *connect.Client[text, text] {
	t.Helper()
	pacer, err := connectlimit.NewPacer(p)
	require.NoError(t, err)
	options := append([]connect.ClientOption{connect.WithInterceptors(pacer)}, protocols[s.protocol]...)
	return connect.NewClient[text, text](s.Client(), s.URL+procedure, options...)
}

func order(ctx context.Context, client *connect.Client[text, text]) error {
	_, err := client.CallUnary(ctx, connect.NewRequest(hello()))
	return err
}

// refusal is the error of a call that is to come again after d.
func refusal(code connect.Code, d time.Duration) error {
	err := connect.NewError(code, errors.New("no"))
	if detail, failed := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)}); failed == nil {
		err.AddDetail(detail)
	}
	return err
}

// The first refusal holds back all calls, and all are served in the end.
func TestPacerHeedsRetryInfo(t *testing.T) {
	for protocol := range protocols {
		var refused, served atomic.Int64
		until := sync.OnceValue(func() time.Time { return time.Now().Add(300 * time.Millisecond) }) // from the first call on
		s := serve(t, handlers{once: func(_ context.Context, in *request) (*response, error) {
			if left := time.Until(until()); left > 0 {
				refused.Add(1)
				return nil, refusal(connect.CodeResourceExhausted, left)
			}
			served.Add(1)
			return connect.NewResponse(in.Msg), nil
		}})
		s.protocol = protocol
		client := s.paced(t, once, connectlimit.Pacing{})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { assert.NoError(t, order(t.Context(), client)) })
		}
		all.Wait()
		assert.Equal(t, int64(20), served.Load(), protocol)
		assert.Equal(t, int64(1), refused.Load(), "%s: one call asks whether the server is there, and its refusal holds back the others", protocol)
	}
}

// This library's own server refuses, and its client comes back in time.
func TestPacerHeedsOurServers(t *testing.T) {
	for protocol := range protocols {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "server", Limits: []core.Limit{core.PerSecond(5).WithBurst(2)}}))
		s := serve(t, handlers{}, connectlimit.New(limiter, all))
		s.protocol = protocol
		client := s.paced(t, once, connectlimit.Pacing{})
		for range 3 {
			assert.NoError(t, order(t.Context(), client), protocol)
		}
	}
}

func TestPacerLeavesOtherErrorsToTheCaller(t *testing.T) {
	repeats := func(string) bool { return true }
	for rule, c := range map[string]struct {
		err    error
		pacing connectlimit.Pacing
		want   int64
	}{
		"resource_exhausted without advice":    {connect.NewError(connect.CodeResourceExhausted, errors.New("message too large")), connectlimit.Pacing{}, 1},
		"unavailable":                          {connect.NewError(connect.CodeUnavailable, errors.New("no")), connectlimit.Pacing{Repeats: repeats}, 1},
		"unavailable that may not be repeated": {refusal(connect.CodeUnavailable, time.Millisecond), connectlimit.Pacing{}, 1},
		"unavailable that may be repeated":     {refusal(connect.CodeUnavailable, time.Millisecond), connectlimit.Pacing{Attempts: 3, Repeats: repeats}, 3},
		"a refusal of an hour":                 {refusal(connect.CodeResourceExhausted, time.Hour), connectlimit.Pacing{}, 1},
		"a refusal of centuries":               {refusal(connect.CodeResourceExhausted, 1<<63-1), connectlimit.Pacing{}, 1},
		"refusals without end":                 {refusal(connect.CodeResourceExhausted, time.Millisecond), connectlimit.Pacing{Attempts: 4}, 4},
	} {
		var calls atomic.Int64
		speak(t, serve(t, handlers{once: func(context.Context, *request) (*response, error) { calls.Add(1); return nil, c.err }}), func(t *testing.T, s server) {
			calls.Store(0)
			err := order(t.Context(), s.paced(t, once, c.pacing))
			assert.Equal(t, connect.CodeOf(c.err), connect.CodeOf(err), rule)
			assert.Equal(t, c.want, calls.Load(), rule)
		})
	}
}

// A call that would wait for too long is not sent, and says until when, and so
// is a stream.
func TestPacerSaysUntilWhen(t *testing.T) {
	speak(t, serve(t, handlers{once: func(context.Context, *request) (*response, error) {
		return nil, refusal(connect.CodeResourceExhausted, time.Hour)
	}, talk: func(context.Context, *bidi) error { t.Error("a stream was opened"); return nil }}), func(t *testing.T, s server) {
		pacing := connectlimit.Pacing{Key: func(context.Context, string, string) (string, error) { return "all", nil }}
		pacer, err := connectlimit.NewPacer(pacing)
		require.NoError(t, err)
		options := append([]connect.ClientOption{connect.WithInterceptors(pacer)}, protocols[s.protocol]...)
		require.Error(t, order(t.Context(), connect.NewClient[text, text](s.Client(), s.URL+once, options...)))
		assert.False(t, pacer.State("all").PausedUntil.IsZero())

		for kind, call := range map[string]func() error{
			"unary": func() error {
				return order(t.Context(), connect.NewClient[text, text](s.Client(), s.URL+once, options...))
			},
			"stream": func() error {
				stream := connect.NewClient[text, text](s.Client(), s.URL+talk, options...).CallBidiStream(t.Context())
				sent := stream.Send(hello())
				_, err := stream.Receive()
				require.NoError(t, errors.Join(stream.CloseRequest(), stream.CloseResponse()))
				require.Error(t, sent)
				return err
			},
		} {
			err := call()
			var wait *clientlimit.Error
			require.True(t, errors.As(err, &wait) && errors.Is(err, core.ErrDeadline), "%s: %v", kind, err)
			assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err), kind)
			assert.True(t, wait.Key == "all" && time.Until(wait.Until) > 50*time.Minute, wait)
		}
	})
}

// A stream holds its slot until it is over, however it ends.
func TestPacerHoldsSlotsOfStreams(t *testing.T) {
	speak(t, serve(t, handlers{}), func(t *testing.T, s server) {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{core.InFlight(1)}}))
		client := s.paced(t, talk, connectlimit.Pacing{Limiter: limiter})
		key := "target:" + strings.ReplaceAll(strings.TrimPrefix(s.URL, "https://"), ":", "%3A")
		for rule, end := range map[string]func(s *connect.BidiStreamForClient[text, text], cancel func()) error{
			"read to its end": func(s *connect.BidiStreamForClient[text, text], _ func()) error {
				err := s.CloseRequest()
				_, last := s.Receive()
				return errors.Join(err, ended(last))
			},
			"closed": func(s *connect.BidiStreamForClient[text, text], _ func()) error {
				_ = s.CloseRequest()
				_ = s.CloseResponse()
				return nil
			},
			"canceled": func(_ *connect.BidiStreamForClient[text, text], cancel func()) error { cancel(); return nil },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			stream := client.CallBidiStream(ctx)
			require.NoError(t, stream.Send(hello()), rule)
			_, err := stream.Receive()
			require.NoError(t, err, rule)
			res, err := limiter.Allow(t.Context(), key)
			require.NoError(t, err)
			assert.False(t, res.Allowed, "%s: the stream has the slot", rule)
			require.NoError(t, end(stream, cancel), rule)
			next := client.CallBidiStream(t.Context()) // waits until the slot is free
			require.NoError(t, next.Send(hello()), rule)
			require.NoError(t, errors.Join(next.CloseRequest(), next.CloseResponse()))
			_, _ = stream.CloseRequest(), stream.CloseResponse() // which a canceled one needs too
			cancel()
		}
	})
}

func TestPacerReportsAllMistakes(t *testing.T) {
	_, err := connectlimit.NewPacer(connectlimit.Pacing{Queue: -1, Attempts: -2, MaxWait: -3})
	for _, name := range []string{"Queue: -1", "Attempts: -2", "MaxWait: -3"} {
		assert.ErrorContains(t, err, "NewPacer "+name+" must be at least 0")
	}
	assert.ErrorContains(t, err, "RL322")
}
