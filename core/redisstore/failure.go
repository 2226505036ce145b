package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// This file has the errors of calls to Redis, and what each error proves: whether the command may have been executed, whether
// a retry makes sense, and whether the server works.

// timeoutError is the error of a call that took too long.
func timeoutError(after time.Duration) error {
	return fmt.Errorf("no answer within %v: %w", after, context.DeadlineExceeded)
}

// withoutArguments returns err without the command's arguments, which some replies of servers show: they may be a client's key,
// or the password.
func withoutArguments(err error) error {
	text := serverText(err)
	if before, _, shown := strings.Cut(text, ", with args beginning with"); shown {
		return serverError(before)
	}
	return err
}

// recovered, deferred, turns a panic in the client or its hooks into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the Redis client panicked: %v", p)
	}
}

// lost reports whether err leaves open whether there is a connection: it is not a server's reply.
func lost(err error) bool { return err != nil && !fromServer(err) }

// fromServer reports whether err is a server's reply.
func fromServer(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// serverText returns what the server replied, or "" if err is no server's reply. Only this text says what happened: err's own
// text may show the command, if a hook of the client has wrapped it, and with it any text that a client chose as key.
func serverText(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	return reply.Error()
}

// refusals are how replies begin of a server that did not execute a command but may do so if it is sent again. go-redis
// follows MOVED and ASK itself, but only three times, which is not enough while slots move.
var refusals = []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK"}

// notExecuted reports whether err proves that the command was not executed and another attempt makes sense.
func notExecuted(err error) bool {
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	return slices.ContainsFunc(refusals, func(refusal string) bool { return redis.HasErrorPrefix(err, refusal) })
}

// crossSlot reports whether err says that the keys of a script call are in different slots. The server executed nothing then.
// The second text is that of Alibaba Cloud's proxies.
func crossSlot(err error) bool {
	return redis.HasErrorPrefix(err, "CROSSSLOT") || strings.Contains(serverText(err), "command keys must in same slot")
}

// lacksStruct reports whether err says that the server's Lua has no struct library. The script uses the library in its first
// line, so nothing was executed. The texts are those of Redis, of miniredis, of Lua, and of Lua in Go. They are exact, because
// an error of struct.pack may come after the script has written.
func lacksStruct(err error) bool {
	text := serverText(err)
	return strings.Contains(text, "global variable 'struct'") || strings.Contains(text, "global 'struct'") ||
		strings.Contains(text, "(nil) with key 'pack'")
}

// ofSlot reports whether err concerns one slot of a Cluster: no server serves it, or it is moving to another. The server that
// replies so works.
func ofSlot(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") || redis.HasErrorPrefix(err, "TRYAGAIN") ||
		redis.HasErrorPrefix(err, "CLUSTERDOWN") && strings.Contains(serverText(err), "slot")
}

// compileError is how the reply of a server that can't compile the script begins, after "ERR ".
const compileError = "Error compiling script"

var errNoCompile = errors.New("this server can't compile the script that decides: it must be Redis 6.0 or newer, Valkey or redict")

// failure is the error of a decision or a reset: what failed, and why.
type failure struct {
	what string // "": err says it
	err  error
}

func inPolicy(name string) string { return fmt.Sprintf("policy %q", name) }

func (f *failure) Error() string {
	if f.what == "" {
		return f.err.Error()
	}
	return f.what + ": " + f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// Certain reports whether it is known what became of the request: it was executed, or it never will be.
func (f *failure) Certain() bool {
	return fromServer(f.err) || notExecuted(f.err) || errors.Is(f.err, core.ErrBreakerOpen)
}

// keyError returns the error that the script reports of one key: a [store.StateError] if the key's state can't be used, or else
// what the server replied to the script.
func keyError(text string) error {
	if strings.HasPrefix(text, bucket.ErrUnreadable.Error()) || text == bucket.ErrLater.Error() || text == bucket.ErrCrowded.Error() || strings.HasPrefix(text, "WRONGTYPE") {
		return &store.StateError{Reason: text}
	}
	return serverError(text)
}

// serverError is an error reply that concerns one key. It is a [redis.Error].
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError marks it as a server's.
func (serverError) RedisError() {}
