package main

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// watch shows something each second, until ctx ends or show fails, and returns that error. Text is shown on a cleared screen.
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

// writeJSONOf writes v on one line if more will follow, as watch prints it, and over several otherwise.
func writeJSONOf(w io.Writer, v any, watched bool) error {
	if !watched {
		return writeJSON(w, v)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
