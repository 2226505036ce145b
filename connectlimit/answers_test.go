package connectlimit_test

import (
	"context"
	"errors"
	"fmt"
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

// TestConformance shows the answers, details, refunds and slots that all
// adapters have in common, with each protocol.

func TestAnOutageIsAnsweredAsByHTTP(t *testing.T) {
	away := limittest.Limiter(t, &limittest.AwayStore{Err: errors.New("away")}, "closed", core.PerHour(1))
	speak(t, serve(t, handlers{}, connectlimit.New(away, all)), func(t *testing.T, s server) {
		for _, err := range []error{s.call(t, "").err, say(s.open(t, ""))} {
			require.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
			var e *connect.Error
			require.ErrorAs(t, err, &e)
			retry, _ := detailsOf(err)
			assert.Equal(t, time.Second, retry.GetRetryDelay().AsDuration(), "RetryInfo")
			assert.Equal(t, []string{"1"}, e.Meta()["Retry-After"])
			if s.protocol == connect.ProtocolConnect {
				assert.Equal(t, []string{"no-store"}, e.Meta()["Cache-Control"])
			}
		}
	})
}

func TestAnErrorOfTheClientIsAnsweredAsItIs(t *testing.T) {
	unauthenticated := connect.NewError(connect.CodeUnauthenticated, errors.New("who are you?"))
	unauthenticated.Meta().Set("X-Realm", "files")
	detail, err := connect.NewErrorDetail(wrapperspb.String("log in"))
	require.NoError(t, err)
	unauthenticated.AddDetail(detail)
	key := func(*connectlimit.Call) (string, error) { return "", fmt.Errorf("no such row: %w", unauthenticated) }
	speak(t, serve(t, handlers{}, connectlimit.New(perHour("calls", 1), key)), func(t *testing.T, s server) {
		for _, err := range []error{s.call(t, "").err, say(s.open(t, ""))} {
			var e *connect.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "who are you?", e.Message(), "without the text around it")
			assert.Equal(t, "files", e.Meta().Get("X-Realm"), "with its metadata")
			assert.Len(t, e.Details(), 1, "and its details")
		}
	})
}

// It also shows that tests of apps can call an interceptor without a server.
func TestAKeyFunctionWhoseOwnCallEndsWithTheClientsHasNotFailed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	key := func(*connectlimit.Call) (string, error) {
		cancel()
		return "", connect.NewError(connect.CodeCanceled, errors.New("the other service was told"))
	}
	call := connectlimit.New(perHour("calls", 9), key).WrapUnary(nil)
	for want, ctx := range map[connect.Code]context.Context{connect.CodeCanceled: ctx, connect.CodeInternal: t.Context()} {
		_, err := call(ctx, connect.NewRequest(hello()))
		assert.Equal(t, want, connect.CodeOf(err), "it has failed if the client still waits")
	}
}

func TestRefundsSeeTheCodeThatTheClientGets(t *testing.T) {
	var fails error
	h := handlers{once: func(_ context.Context, in *request) (*response, error) {
		if fails != nil {
			return nil, fails
		}
		return connect.NewResponse(in.Msg), nil
	}}
	var seen connect.Code
	refund := connectlimit.WithRefund(func(_ *connectlimit.Call, code connect.Code) bool { seen = code; return true })
	s := serve(t, h, connectlimit.New(perHour("logins", 1), all, refund))
	for want, err := range map[connect.Code]error{
		0: nil, connect.CodeDataLoss: connect.NewError(connect.CodeDataLoss, nil), connect.CodeUnknown: assert.AnError,
		connect.CodeDeadlineExceeded: context.DeadlineExceeded, connect.CodeCanceled: context.Canceled,
	} {
		fails = err
		if got := s.call(t, "").err; want != 0 {
			assert.Equal(t, want, connect.CodeOf(got), "the premise: what the client gets of %v", err)
		}
		assert.Equal(t, want, seen, "of %v; 0 is OK", err)
	}
}
