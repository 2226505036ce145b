package middleware_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// The tests of this file show what holds for the messages of streams in every
// protocol. grpclimit and connectlimit test what they add.

// stream is a stream whose messages take of the bucket "all".
type stream struct {
	middleware.Messages[string]
	limiter *core.Limiter
	ends    []middleware.Code // of messages
}

// newStream returns a stream whose interceptors share the decisions in ctx.
func newStream(ctx context.Context, limit core.Limit) *stream {
	decisions, ctx := middleware.DecisionsIn(ctx, "call")
	s := new(stream)
	s.limiter = core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "messages", Limits: []core.Limit{limit}}))
	options := middleware.Options[string]{Refund: func(_ string, code int) bool {
		s.ends = append(s.ends, middleware.Code(code))
		return false
	}}
	s.Messages = middleware.Messages[string]{
		Engine:    middleware.New(s.limiter, func(string) (string, error) { return "all", nil }, options, middleware.Protocol[string]{}),
		Decisions: decisions, Cancel: func() {},
		Refuse: func(string, *middleware.Admission) error { return errors.New("refused") },
		Call: func(message any) (string, middleware.Request) {
			return message.(string), &middleware.Inbound{Ctx: ctx, Decisions: decisions}
		},
	}
	return s
}

// arrives is a message that is there.
func arrives() error { return nil }

func TestAMessageIsOverWithTheNextOrWithTheHandler(t *testing.T) {
	s := newStream(t.Context(), core.InFlight(1))
	free := func() error {
		limittest.ComesBack(t, s.limiter, "all", 1, "the message before is over while the handler waits for another one")
		return nil
	}
	for range 2 {
		require.NoError(t, s.Receive(free, "a message"))
		assert.EqualValues(t, 0, limittest.Left(t, s.limiter, "all"), "a message at work holds its slot")
	}
	s.Stop(middleware.CodeInternal)
	limittest.ComesBack(t, s.limiter, "all", 1, "the handler has returned")
	assert.Equal(t, []middleware.Code{0, middleware.CodeInternal}, s.ends, "the last message ends with the stream's code")
}

// A goroutine of the handler may receive when the handler returns.
func TestAMessageAfterTheHandlerHoldsNoSlot(t *testing.T) {
	s := newStream(t.Context(), core.InFlight(1))
	require.NoError(t, s.Receive(func() error { s.Stop(0); return nil }, "a message"))
	limittest.ComesBack(t, s.limiter, "all", 1, "nobody handles the message")
	assert.Equal(t, []middleware.Code{middleware.CodeCanceled}, s.ends)
}

func TestHandlersFindTheOpeningAndTheNewestMessage(t *testing.T) {
	_, ctx := middleware.DecisionsIn(t.Context(), "call")
	opening, front, behind := newStream(ctx, core.PerDay(9)), newStream(ctx, core.PerDay(9)), newStream(ctx, core.PerDay(9))
	c, x := opening.Call("an opening")
	opening.Engine.Begin(c, x)
	for range 3 {
		require.NoError(t, behind.Receive(func() error { return front.Receive(arrives, "a message") }, "a message"))
		assert.Len(t, middleware.AllFromContext(middleware.Stored(ctx)), 3, "of the opening, and of each limiter of messages")
	}
	assert.EqualValues(t, 8, limittest.Left(t, opening.limiter, "all"), "messages take nothing of the limiter of openings")
	assert.EqualValues(t, 6, limittest.Left(t, front.limiter, "all"), "both limiters of messages see each")
	assert.EqualValues(t, 6, limittest.Left(t, behind.limiter, "all"), "both limiters of messages see each")
}

func TestMessagesWaitForTheirTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t.Context(), core.PerSecond(1))
		s.Wait = true
		began := time.Now()
		for range 4 {
			require.NoError(t, s.Receive(arrives, "a message"))
		}
		assert.InDelta(t, 3, time.Since(began).Seconds(), 0.01, "each message after the first waits")
	})
}
