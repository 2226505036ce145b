// Command ratelimit says who is limited and why, changes limits without a
// deploy, checks policy files, and replays access logs through policies. Its
// commands are get, list, top, reset, override, block, unblock, check, replay and
// doctor.
//
//	go install github.com/tokenbucket-go/ratelimit/cmd/ratelimit@latest
//
// See [docs/tools.md].
//
// [docs/tools.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/tools.md
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"
)

func main() {
	redis.SetLogger(silent{}) // commands report failures
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
