// Package clientlimit is for clients of services that limit rates. A
// [Transport] keeps to the limits, together with all goroutines that use it,
// and sends again what the service has refused:
//
//	client := &http.Client{Transport: clientlimit.New(http.DefaultTransport)}
//
// It goes by what the answers say. If the limits are known, give it a limiter:
// [WithLimiter]. It needs the standard library and package core alone.
//
// See [docs/client.md].
//
// [docs/client.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/client.md
package clientlimit

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"
)

// Transport is an [http.RoundTripper] that sends requests when the limits of
// their service allow it. Requests of one key wait together: by default the key
// is the host. Create it with [New]. It is safe for concurrent use, starts no
// goroutine and needs no closing.
//
//   - Requests of a key wait in the order in which they came.
//   - With a limiter, a request waits for its tokens.
//   - Without one, if the answers say what is left and when it is reset, the
//     Transport spreads that over the time.
//   - A refusal has all requests of the key pause, for as long as the answer
//     says. When the pause is over one request goes first; when it is answered
//     the others follow, at the rate that the service has accepted so far.
//     [WithRefusal] changes which answers are refusals. If the service names
//     several limits (X-RateLimit-Resource, X-RateLimit-Bucket), each pauses
//     alone, with the requests whose path begins alike.
//   - A refused request is sent again if its body can be: it has none, or a
//     GetBody, as [http.NewRequest] sets it for buffers and strings. If it
//     can't be sent again, or not in time, the caller gets the refusal.
//   - After 503 with Retry-After, and after errors of the connection, requests
//     are sent again only if executing them twice does no harm: their method is
//     idempotent (RFC 9110, section 9.2.2), or they have an Idempotency-Key.
//     Requests that found no connection were never sent, so all methods are
//     sent again.
//
// A request that would have to wait beyond the deadline of its context, or for
// longer than [WithMaxWait], fails at once with an [Error]. So nothing that a
// server says lets a request wait for longer than its caller wants.
//
// If the limiter has slots ([core.InFlight]), a request holds them until the
// body of its answer has been read or closed.
type Transport struct {
	next http.RoundTripper
	config
	lanes
}

// New returns a Transport that sends requests by next; nil stands for
// [http.DefaultTransport]. It panics with a [core.ConfigError] of each mistake
// in the options.
func New(next http.RoundTripper, options ...Option) *Transport {
	c := config{key: ByHost(), attempts: 5, maxWait: time.Minute, queue: 1000}
	for _, o := range options {
		if o != nil {
			o(&c)
		}
	}
	panicWith(c.mistakes...)
	if next == nil {
		next = http.DefaultTransport
	}
	t := &Transport{next: next, config: c}
	if t.window = 1; c.limiter != nil {
		t.window = math.MaxInt32
	}
	return t
}

// panicWith panics if there are mistakes.
func panicWith(mistakes ...error) {
	if err := errors.Join(mistakes...); err != nil {
		panic(fmt.Errorf("ratelimit: %w", err))
	}
}

// CloseIdleConnections closes those of the transport that sends the requests,
// for [http.Client.CloseIdleConnections].
func (t *Transport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// ErrQueueFull means that a request was not sent, because too many wait for its
// key: see [WithQueue].
var ErrQueueFull = errors.New("ratelimit: too many requests wait already (RL622)")

// Error means that a request was not sent, because it would have waited for too
// long, or too many requests wait already. [errors.As] finds it in the error of
// an [http.Client]. It wraps [core.ErrDeadline], [core.ErrCapacity] or
// [ErrQueueFull].
type Error struct {
	Key   string
	Until time.Time // when it could have been sent at the earliest; zero: that is not known, or never
	Err   error

	reason string // what it would have waited for
}

// Error names the key, what the request would have waited for, and until when.
func (e *Error) Error() string {
	text := "ratelimit: not sent to " + e.Key
	if e.reason != "" {
		text += ": " + e.reason
	}
	if !e.Until.IsZero() {
		text += " until " + e.Until.Format(time.RFC3339)
	}
	return text + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// What requests wait for.
const (
	forPause   = "the service asks to wait"
	forPace    = "the pace that the service's answers allow"
	forLimiter = "the limiter"
	forTurn    = "requests that came before"
)
