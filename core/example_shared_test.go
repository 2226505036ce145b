package core_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core"
)

// fields are the metadata of a message queue's answer.
type fields map[string]string

func (f fields) Get(name string) string { return f[name] }
func (f fields) Set(name, value string) { f[name] = value }

func (f fields) Add(name, value string) {
	if before := f[name]; before != "" {
		value = before + ", " + value
	}
	f[name] = value
}

// Header fields can be written to anything that has these three methods.
func ExampleHeaderWriter() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "messages", Limits: []core.Limit{core.PerMinute(60)}, Headers: core.HeadersDraft8,
	}))
	res, err := limiter.Allow(context.Background(), "ann")
	if err != nil {
		panic(err)
	}
	answer := fields{}
	res.WriteHeaders(answer)
	fmt.Println(answer["Ratelimit-Policy"])
	// Output: "messages";q=60;w=60
}

// Middleware and the handler have the same decision: what one of them has given
// back, the other can't give back again.
func ExampleSharedResult() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	ctx := context.Background()
	res, err := limiter.Allow(ctx, "ann")
	if err != nil {
		panic(err)
	}
	shared := new(core.SharedResult)
	shared.Share(&res)

	inHandler := shared.Result()
	fmt.Println(inHandler.Undo(ctx))
	fmt.Println(errors.Is(res.Undo(ctx), core.ErrSettled))
	// Output:
	// <nil>
	// true
}
