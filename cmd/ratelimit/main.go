// Command ratelimit answers questions about limits on the command line: what is wrong with a policy file, what a change of it does
// to buckets, what a policy would have denied, and who is limited right now, and why.
//
//	go run ./cmd/ratelimit help
package main

import (
	"os"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/conn"
)

func main() {
	conn.Quiet()
	os.Exit(table.Run(cli.UntilSignal(), cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv, Terminal: isTerminal(os.Stderr)}, os.Args[1:]))
}

// isTerminal reports whether f can show progress.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
