package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/script"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// This file has the errors of calls to Redis, and what an error proves: whether
// the command may have been executed, whether a retry makes sense, whether the
// server works, and what is wrong with it.

// timeoutError returns the error of a call that had no answer after so long.
func timeoutError(after time.Duration) error {
	return fmt.Errorf("no answer within %v: %w", after, context.DeadlineExceeded)
}

// withoutArguments returns err without the command's arguments, which some
// error replies show: these may have a client's key or the password.
func withoutArguments(err error) error {
	text := serverText(err)
	if before, _, shown := strings.Cut(text, ", with args beginning with"); shown {
		return serverError(before)
	}
	if reply := fromScript(text); reply != text {
		return serverError(reply)
	}
	return err
}

// recovered sets *err if the client or a hook of it has panicked. It must be
// deferred.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the Redis client panicked: %v", p)
	}
}

// lost reports whether err is no server's reply, so that the connection may be
// lost.
func lost(err error) bool { return err != nil && !fromServer(err) }

// fromServer reports whether err is a server's reply: the server has a
// connection, and what it did is known.
func fromServer(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// serverText returns what the server replied, or "" if err is no server's
// reply. err.Error() may have the text of the command besides, and so of a key
// that a client has chosen.
func serverText(err error) string {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return reply.Error()
	}
	return ""
}

// effect is what a server has done with a command whose reply is an error.
type effect int

const (
	unknown   effect = iota // not known, or of no use
	nothing                 // nothing: another attempt makes sense
	elsewhere               // nothing, because it does not serve the hash slot of the key; the server itself works
	unwritten               // it takes no writes, so the script has left the key as it was
)

const (
	notReady  = "Redis is not ready"
	noWrites  = "Redis takes no writes"
	badUser   = "Redis refuses the password or the user"
	noRight   = "Redis refuses this user a command or a key"
	unserved  = "no node of the Cluster serves the key"
	isReplica = "this Redis is a replica and takes no writes"
	isFull    = "the memory of Redis is full, so it takes no writes"
)

// meanings are what servers' errors mean, by how they begin. The first that fits
// counts. go-redis follows MOVED and ASK itself, but only three times, which is
// not enough while hash slots move.
var meanings = []struct {
	begins string
	effect effect
	says   string // for the log
}{
	{"LOADING", nothing, notReady},
	{"MASTERDOWN", nothing, notReady},
	{"BUSY", unknown, notReady},
	{"READONLY", nothing, isReplica},
	{"OOM", unwritten, isFull},
	{"MISCONF", unwritten, noWrites},
	{"NOREPLICAS", unwritten, noWrites},
	{"NOGOODSLAVE", unknown, noWrites},
	{"TRYAGAIN", elsewhere, notReady},
	{"MOVED", elsewhere, unserved},
	{"ASK", elsewhere, unserved},
	{"CLUSTERDOWN Hash slot", elsewhere, unserved},
	{"CLUSTERDOWN", nothing, unserved},
	{"NOAUTH", unknown, badUser},
	{"WRONGPASS", unknown, badUser},
	{"invalid password", unknown, badUser},
	{"AUTH ", unknown, badUser},
	{"Client sent AUTH", unknown, badUser},
	{"NOPERM", unknown, noRight},
	{"The user executing the script can't", unknown, noRight},
	{"ACL failure in script", unknown, noRight},
}

// meaningOf returns what err means, if it is a server's reply: see meanings.
func meaningOf(err error) (effect effect, says string) {
	text := strings.TrimPrefix(serverText(err), "ERR ")
	for _, m := range meanings {
		if strings.HasPrefix(text, m.begins) {
			return m.effect, m.says
		}
	}
	return unknown, "Redis answers with an error"
}

// notExecuted reports whether err proves that the command was not executed and
// another attempt makes sense.
func notExecuted(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	effect, _ := meaningOf(err)
	return ok && op.Op == "dial" || effect == nothing || effect == elsewhere
}

// wroteNothing reports whether err says that the server takes no writes.
func wroteNothing(err error) bool {
	effect, _ := meaningOf(err)
	return effect == unwritten
}

// ofHashSlot reports whether err says that the server does not serve the hash
// slot of the key, so that it is moving or no server has it.
func ofHashSlot(err error) bool {
	effect, _ := meaningOf(err)
	return effect == elsewhere
}

// crossSlot reports whether err says that the keys of a script call are in
// different hash slots. The server has executed nothing then. Alibaba Cloud's
// proxies have the second text.
func crossSlot(err error) bool {
	return redis.HasErrorPrefix(err, "CROSSSLOT") || strings.Contains(serverText(err), "command keys must in same slot")
}

// lacksStruct reports whether err says that the server's Lua has no struct
// library, so nothing was executed. The texts are those of Redis, miniredis,
// Lua, and Lua in Go. They must not match errors of struct.pack, which may come
// after the script has written.
func lacksStruct(err error) bool {
	text := serverText(err)
	says := func(part string) bool { return strings.Contains(text, part) }
	return says("global variable 'struct'") || says("global 'struct'") || says("(nil) with key 'pack'")
}

// compileError is the beginning, after "ERR ", of the reply of a server that
// can't compile the script.
const compileError = "Error compiling script"

var errNoCompile = errors.New("this server can't compile the script that decides: it must be Redis 6.0 or newer, Valkey or redict")

// failure is the error of a decision or a reset: what failed, and why.
type failure struct {
	what string // such as `policy "api"`; "": err says it
	err  error
}

// inPolicy returns the what of a failure.
func inPolicy(name string) string { return fmt.Sprintf("policy %q", name) }

func (f *failure) Error() string {
	if f.what == "" {
		return f.err.Error()
	}
	return f.what + ": " + f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// Certain reports whether it is known if the request was executed: it was, or
// it never will be.
func (f *failure) Certain() bool {
	return fromServer(f.err) || notExecuted(f.err) || errors.Is(f.err, core.ErrBreakerOpen)
}

// fromScript returns the error that a command in the script had. Servers before
// Redis 7 put it behind where the script was: "ERR Error running script …:
// @user_script:7: WRONGTYPE …", or "@user_script: 7: -READONLY …".
func fromScript(text string) string {
	return strings.TrimSpace(inScript.ReplaceAllString(text, ""))
}

var inScript = regexp.MustCompile(`^.*@user_script: ?\d+: -?`)

// keyError returns the error of a key of which the script reports text: a
// [store.StateError] if the key's state can't be used, and otherwise what the
// server replied to the script.
func keyError(text string) error {
	text = fromScript(text)
	if err := unusable(text); err != nil {
		return err
	}
	return serverError(text)
}

// unusable returns the error of a key that holds no bucket, if a server's error
// says that, or nil.
func unusable(text string) error {
	switch {
	case strings.Contains(text, script.NoBucket):
		return &store.StateError{Reason: script.NoBucket}
	case strings.HasPrefix(text, "WRONGTYPE"):
		return &store.StateError{Reason: text}
	}
	return nil
}

// serverError is the text of a server's reply that is an error. It is a
// [redis.Error].
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError makes serverError a [redis.Error].
func (serverError) RedisError() {}

// unconnected is the error of a call that had no connection.
type unconnected struct {
	address string
	after   time.Duration // how long the call waited for a connection; 0: opening one failed
	cause   error         // why that failed, or with after why an earlier one failed; nil: not known
}

func (e *unconnected) Error() string {
	text := "no connection to " + e.address
	if e.after > 0 {
		text += " within " + e.after.String()
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap returns [context.DeadlineExceeded] after a wait: the cause is then an
// earlier connection's and proves nothing of this call.
func (e *unconnected) Unwrap() error {
	if e.after > 0 {
		return context.DeadlineExceeded
	}
	return e.cause
}

// diagnosed adds to err the server's address and what is wrong there. It
// returns nil for nil.
func diagnosed(server string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", server, diagnosis(err), err)
}

// diagnosis says for the log what is wrong with Redis, by the error of a call.
func diagnosis(err error) string {
	switch {
	case fromServer(err):
		_, says := meaningOf(err)
		return says
	case errors.Is(err, redis.ErrPoolTimeout):
		return "the client of Redis has no free connection"
	case errors.As(err, new(*unconnected)), errors.As(err, new(net.Error)), slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) }):
		return "Redis does not answer"
	}
	return "calls to Redis fail"
}

// ends are errors of connections that ended, and of calls that took too long.
var ends = []error{context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed}
