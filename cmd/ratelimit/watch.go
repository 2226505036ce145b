package main

import (
	"context"
	"io"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
)

// watch shows something each second, until ctx ends or show fails, and returns
// that error. Text is shown on a cleared screen.
func watch(ctx context.Context, w io.Writer, asJSON bool, show func() error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if !asJSON {
			_, _ = io.WriteString(w, "\x1b[H\x1b[2J")
		}
		if err := show(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// printing returns how an object is printed: on one line if more will follow,
// as watch prints it, and over several otherwise.
func printing(watched bool) func(io.Writer, output.Object) error {
	if watched {
		return output.Line
	}
	return output.Write
}
