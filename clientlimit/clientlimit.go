// Package clientlimit is for clients of services that limit rates. A
// [Transport] keeps to the limits, together with all goroutines that use it,
// and sends again what the service has refused:
//
//	client := &http.Client{Transport: clientlimit.New(http.DefaultTransport)}
//
// It learns the limits from the answers. If they are known, give it a limiter:
// [WithLimiter]. It needs the standard library and package core alone.
//
// See [docs/client.md].
//
// [docs/client.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/client.md
package clientlimit

import (
	"errors"
	"net/http"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/internal/outgoing"
)

// Transport is an [http.RoundTripper] that sends requests when the limits of
// their service allow it. Requests of one key wait together: by default the key
// is the host. Create it with [New]. It is safe for concurrent use, starts no
// goroutine and needs no closing.
//
//   - With a limiter, a request waits for its tokens.
//   - A refusal (429, and 403 if it says that a limit is the reason) has all
//     requests of the key pause, for as long as Retry-After or another field
//     says. When the pause is over one request goes first, and the others
//     follow when it is answered.
//   - Without a limiter, if the answers say what is left and when it is reset,
//     the Transport spreads that over the time. If they don't, it learns from
//     refusals which rate is possible.
//   - A refused request is sent again, if its body can be sent again: it has
//     none, or a GetBody, as [http.NewRequest] sets it for buffers and
//     strings. If it can't be sent again, or not in time, the caller gets the
//     refusal, with its body unread.
//   - After 503 with Retry-After, and after errors of the connection, requests
//     are sent again that may have been executed: if their method is
//     idempotent (RFC 9110, section 9.2.2), or [WithRetryOf] says so. Requests
//     that found no connection were never sent, so all methods are sent again.
//
// A request that would have to wait beyond the deadline of its context, or for
// longer than [WithMaxWait], fails at once with an [Error]. So nothing that a
// server says lets a request wait for longer than its caller wants.
//
// If the limiter has slots ([core.InFlight]), a request holds them until the
// body of its answer has been read or closed.
type Transport struct {
	next http.RoundTripper
	gate *outgoing.Gate
	config
}

// New returns a Transport that sends requests by next; nil stands for
// [http.DefaultTransport]. It panics with a [core.ConfigError] of each mistake
// in the options.
func New(next http.RoundTripper, options ...Option) *Transport {
	c := config{key: ByHost(), attempts: 5, longest: time.Minute, queue: 1000}
	for _, o := range options {
		if o != nil {
			o(&c)
		}
	}
	if err := errors.Join(c.mistakes...); err != nil {
		middleware.RefuseArguments(err)
	}
	if next == nil {
		next = http.DefaultTransport
	}
	return &Transport{next: next, config: c, gate: outgoing.New(outgoing.Config{
		Name: c.name, Limiter: c.limiter, Shared: c.shared, Queue: c.queue, Observers: c.observers, Jitter: c.jitter,
	})}
}

// CloseIdleConnections closes those of the transport that sends the requests,
// for [http.Client.CloseIdleConnections].
func (t *Transport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// State is how one key is doing.
type State = outgoing.State

// State returns how a key is doing now, such as "host:api.example.com" of
// [ByHost]. It is for pages and logs, and is the zero State for a key that was
// not used lately.
func (t *Transport) State(key string) State { return t.gate.State(key) }

// Error means that a request was not sent, because it would have waited for too
// long, or too many requests wait already. [errors.As] finds it in the error of
// an [http.Client]. It wraps [core.ErrDeadline], [core.ErrCapacity] or
// [ErrQueueFull].
type Error = outgoing.Error

// ErrQueueFull means that a request was not sent, because too many wait for its
// key: see [WithQueue].
var ErrQueueFull = outgoing.ErrQueueFull
