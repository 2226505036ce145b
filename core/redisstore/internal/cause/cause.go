// Package cause says what is wrong with Redis, by the errors of calls.
package cause

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// replies says what a server's errors mean, by how they begin.
var replies = []struct {
	says   string
	begins []string
}{
	{"Redis refuses the password or the user", []string{"NOAUTH", "WRONGPASS", "invalid password", "AUTH ", "Client sent AUTH"}},
	{"Redis refuses this user a command or a key", []string{"NOPERM", "The user executing the script can't", "ACL failure in script"}},
	{"this Redis is a replica and takes no writes", []string{"READONLY"}},
	{"the memory of Redis is full, so it takes no writes", []string{"OOM"}},
	{"Redis takes no writes", []string{"MISCONF", "NOREPLICAS", "NOGOODSLAVE"}},
	{"Redis is not ready", []string{"LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN"}},
	{"no node of the Cluster serves the key", []string{"CLUSTERDOWN", "MOVED", "ASK"}},
}

// Unconnected is the error of a call that had no connection.
type Unconnected struct {
	Address string
	After   time.Duration // how long the call waited for a connection; 0: opening one failed
	Cause   error         // why that failed, or with After why an earlier one failed; nil: not known
}

func (e *Unconnected) Error() string {
	text := "no connection to " + e.Address
	if e.After > 0 {
		text += " within " + e.After.String()
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns [context.DeadlineExceeded] after a wait, and otherwise the
// cause. After a wait the cause is an earlier connection's and proves nothing
// of this call.
func (e *Unconnected) Unwrap() error {
	if e.After > 0 {
		return context.DeadlineExceeded
	}
	return e.Cause
}

// Describe says for the log what is wrong with Redis, by the error of a call.
func Describe(err error) string {
	var reply redis.Error
	switch {
	case errors.As(err, &reply):
		text := strings.TrimPrefix(reply.Error(), "ERR ")
		for _, kind := range replies {
			if slices.ContainsFunc(kind.begins, func(begin string) bool { return strings.HasPrefix(text, begin) }) {
				return kind.says
			}
		}
		return "Redis answers with an error"
	case errors.Is(err, redis.ErrPoolTimeout):
		return "the client of Redis has no free connection"
	case errors.As(err, new(*Unconnected)), unanswered(err):
		return "Redis does not answer"
	}
	return "calls to Redis fail"
}

// unanswered reports whether err is a network error or a timeout.
func unanswered(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed)
}
