package core

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxAttempts bounds how often one decision is sent again after replies and errors that prove it
// was not executed. The store's timeout bounds it too.
const maxAttempts = 5

// compileError is how, after "ERR ", a server begins its reply when it can't compile a script.
const compileError = "Error compiling script"

var errNoCompile = errors.New("this server can't compile the script that decides: it must be Redis 5 or newer, or do as that does")

// charge is a command that go-redis must not send twice. Its own retries, of timeouts above all,
// would charge a request as often as they reach the server.
type charge struct{ *redis.Cmd }

// NoRetry tells go-redis to leave retries to us.
func (charge) NoRetry() bool { return true }

// command makes a command that runs the script.
func command(ctx context.Context, name, script string, args []any) charge {
	cmd := charge{redis.NewCmd(ctx, append([]any{name, script}, args...)...)}
	cmd.SetFirstKeyPos(3)
	return cmd
}

// eval runs the script. It is executed at most once: what may have been executed is never sent again.
func (s *RedisStore) eval(ctx context.Context, args []any) (any, error) {
	name, script := "evalsha", scriptSHA
	for attempt := 1; ; attempt++ {
		cmd := command(ctx, name, script, args)
		_ = s.client.Process(ctx, cmd) // its error is cmd's
		err := cmd.Err()
		if err == nil {
			return cmd.Val(), nil
		}
		s.rediscover(ctx, err)
		switch {
		case redis.HasErrorPrefix(err, compileError):
			return nil, fmt.Errorf("%w: %w", errNoCompile, err)
		case attempt == maxAttempts || ctx.Err() != nil:
			return nil, err
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			// The server lost its script cache: EVAL runs the script and caches it again.
			name, script = "eval", scriptText
		case !notExecuted(err):
			return nil, err
		default:
			pause(ctx, time.Millisecond<<attempt)
		}
	}
}

// rediscover lets a Cluster client ask again which node holds which slot, in the background, when a
// node can't be reached. By itself it does so only when another node redirects it, which never happens
// to a command that isn't sent to another.
func (s *RedisStore) rediscover(ctx context.Context, err error) {
	cluster, ok := s.client.(interface{ ReloadState(ctx context.Context) })
	if ok && !fromServer(err) {
		cluster.ReloadState(ctx)
	}
}

// fromServer reports whether err is a server's reply.
func fromServer(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// refusals are the replies by which a server says that it did not execute a command but may do so
// if asked again. go-redis follows MOVED and ASK itself.
var refusals = [...]string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"}

// notExecuted reports whether err proves that the command did not run and another try makes sense.
func notExecuted(err error) bool {
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	text := err.Error()
	for _, refusal := range refusals {
		if strings.HasPrefix(text, refusal) {
			return true
		}
	}
	return false
}

// certain reports whether err, which may be nil, leaves no doubt that what was sent is over: executed, or
// never to be.
func certain(err error) bool {
	bad := (*StateError)(nil)
	return err == nil || errors.As(err, &bad) || fromServer(err) || notExecuted(err)
}
