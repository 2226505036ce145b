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

// timeoutError is the error of a call that took too long.
func timeoutError(after time.Duration) error {
	return fmt.Errorf("no answer within %v: %w", after, context.DeadlineExceeded)
}

// withoutArguments returns err, a server's reply, without the command's arguments that some replies show: they are keys of
// clients, or the password.
func withoutArguments(err error) error {
	text := serverText(err)
	if before, _, shown := strings.Cut(text, ", with args beginning with"); shown {
		return serverError(before)
	}
	return err
}

// recovered turns a panic in the client into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the Redis client panicked: %v", p)
	}
}

// lost reports whether err tells that there may be no connection: it is no server's reply.
func lost(err error) bool { return err != nil && !fromServer(err) }

// fromServer reports whether err is a server's reply.
func fromServer(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// serverText is what the server replied, or "" if err is no server's reply. A hook of the client may wrap the reply in an
// error that shows the command. The keys there are a client's text and prove nothing.
func serverText(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	return reply.Error()
}

// refusals begin the replies of a server that did not execute a command but may do so if it is sent again. go-redis
// follows MOVED and ASK itself, but only three times: not enough while slots move.
var refusals = []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK"}

// notExecuted reports whether err proves that the command did not run and another try makes sense.
func notExecuted(err error) bool {
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	return slices.ContainsFunc(refusals, func(refusal string) bool { return redis.HasErrorPrefix(err, refusal) })
}

// crossSlot reports whether err tells that the keys of a script call are not in one slot. The server executed nothing. The
// second text is that of Alibaba Cloud's proxies.
func crossSlot(err error) bool {
	return redis.HasErrorPrefix(err, "CROSSSLOT") || strings.Contains(serverText(err), "command keys must in same slot")
}

// lacksStruct reports whether err tells that the server's Lua has no struct library. The script needs it in its first
// line, so nothing was executed. The texts are those of Redis and miniredis, of Lua, and of Lua in Go. A looser look would
// take an error of struct.pack, in the middle of a script that has written, for this one.
func lacksStruct(err error) bool {
	text := serverText(err)
	return strings.Contains(text, "global variable 'struct'") || strings.Contains(text, "global 'struct'") ||
		strings.Contains(text, "(nil) with key 'pack'")
}

// failure is why a decision was not made, or a bucket not reset.
type failure struct {
	what string
	err  error
}

func inPolicy(name string) string { return fmt.Sprintf("policy %q", name) }

func (f *failure) Error() string { return f.what + ": " + f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// Certain reports whether f proves that what was asked was executed or never will be.
func (f *failure) Certain() bool {
	return fromServer(f.err) || notExecuted(f.err) || errors.Is(f.err, core.ErrBreakerOpen)
}

// keyError is the error that the script reports of one key: that its state can't be used, or what the server said.
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
