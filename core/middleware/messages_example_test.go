package middleware_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// A stream whose messages each take a token: the third is denied, and so the
// stream is over.
func ExampleMessages() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "messages", Limits: []core.Limit{core.PerHour(2)}}))
	key := func(text string) (string, error) { return "ann", nil }
	ctx, cancel := context.WithCancel(context.Background())
	decisions, ctx := middleware.DecisionsIn(ctx, "call")
	stream := middleware.Messages[string]{
		Engine:    middleware.New(limiter, key, middleware.Options[string]{}, middleware.Protocol[string]{}),
		Decisions: decisions, Cancel: cancel,
		Refuse: func(_ string, a *middleware.Admission) error { return errors.New(a.Refusal(ctx).Message) },
		Call: func(message any) (string, middleware.Request) {
			return *message.(*string), &middleware.Inbound{Procedure: "/chat.v1.Chat/Talk", Ctx: ctx, Decisions: decisions}
		},
	}
	defer stream.Stop(0)

	var text string
	for _, sent := range []string{"one", "two", "three", "four"} {
		if err := stream.Receive(func() error { text = sent; return nil }, &text); err != nil {
			fmt.Println(sent, "-", err, "-", ctx.Err())
			continue
		}
		fmt.Println(sent)
	}
	// Output:
	// one
	// two
	// three - rate limit exceeded - context canceled
	// four - rate limit exceeded - context canceled
}
