// Command ratelimit answers questions about limits on the command line: what is
// wrong with a policy file, what a change of it does to buckets, what a policy
// would have denied, and who is limited right now, and why.
//
//	go install github.com/tokenbucket-go/ratelimit/cmd/ratelimit@latest
//
// See [docs/tools.md].
//
// [docs/tools.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/tools.md
package main

import (
	"os"

	"golang.org/x/term"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/conn"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

func main() {
	conn.Quiet()
	s := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv, Terminal: term.IsTerminal(int(os.Stderr.Fd()))}
	if columns, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil { // it is a terminal
		s.Out = show.Screen{Writer: os.Stdout, Columns: columns, Color: show.HasColor(os.Getenv)}
	}
	if columns, _, err := term.GetSize(int(os.Stderr.Fd())); err == nil {
		s.Err = show.Screen{Writer: os.Stderr, Columns: columns}
	}
	os.Exit(table.Run(cli.UntilSignal(), s, os.Args[1:]))
}
