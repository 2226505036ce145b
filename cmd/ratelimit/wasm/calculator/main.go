//go:build js

// Command calculator computes what the site's calculator shows, in a worker of
// the page.
package main

import (
	"context"
	_ "time/tzdata" // a browser has none for programs

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/calculator"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/inpage"
)

func main() {
	inpage.Serve(inpage.Answers{
		"compute": func(_ context.Context, q inpage.Question) (any, error) {
			var asked calculator.Question
			err := q.Read(&asked)
			return calculator.Compute(asked), err
		},
	})
}
