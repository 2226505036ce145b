// Command ratelimit answers questions about limits on the command line: what is wrong with a policy file, what a change of it does
// to buckets, what a policy would have denied, and who is limited right now, and why.
//
//	go run ./cmd/ratelimit help
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/conn"
)

func main() {
	conn.Quiet()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := table.Run(ctx, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv, Terminal: isTerminal(os.Stderr)}, os.Args[1:])
	stop()
	os.Exit(code)
}

// isTerminal reports whether f can show progress.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
