// Package adapter holds what rate-limiting middleware has in common in every framework: the engine that decides
// requests, the key extractors, the status codes and the header fields. An adapter adds three things: it shows the
// framework's request as an [Exchange], it names these functions in the framework's types, and it writes refusals
// the way the framework does. Package adaptertest checks the result.
package adapter

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
)

// Exchange is one HTTP request and the header of its response, as a framework shows them. Methods return what the
// client sent, and "" or nil if there is nothing. Strings are valid only while the request is handled.
type Exchange interface {
	Context() context.Context
	Method() string
	Path() string // as requested, percent-decoded, such as /items/7
	// Route returns the pattern that matched, such as /items/{id}. The pattern is not known if no route matched, or
	// if the framework has not routed the request yet.
	Route() (pattern string, known bool)
	RemoteAddr() string   // of the connection's peer
	ContentLength() int64 // of the body, in bytes; -1 if it is not known
	Header(name string) []string
	Cookie(name string) string // as handlers read it: decoded if the framework decodes it
	Query(name string) string
	Param(name string) string // of the route, percent-decoded
	Value(key any) any        // what earlier middleware left in the request's context

	// Keep stores a decision with the request, for handlers and for Kept. Kept returns what Keep stored last, or
	// nil. ByRoute stores a note this way, so the engine's Exchange must return what an extractor's Exchange kept.
	Keep(d *Decision)
	Kept() *Decision

	// Response returns the header of the response. Its fields are set before the body is written.
	Response() core.HeaderWriter
}

// Peer is an Exchange of a framework that has the peer's address in binary. It spares ByIP the text.
type Peer interface {
	RemoteIP() netip.Addr // the zero Addr if RemoteAddr tells more
}

// Reused shows requests C in exchanges *X that were used before. It is for adapters whose exchange is not just a pointer,
// and so would take an allocation each time.
type Reused[C, X any, P exchangeOf[X]] struct {
	fill func(P, C)
	used sync.Pool
}

type exchangeOf[X any] interface {
	*X
	Exchange
}

// Reuse returns a Reused. fill makes an exchange show a request.
func Reuse[C, X any, P exchangeOf[X]](fill func(P, C)) *Reused[C, X, P] {
	return &Reused[C, X, P]{fill: fill, used: sync.Pool{New: func() any { return P(new(X)) }}}
}

// Show returns an exchange that shows c until Done.
func (r *Reused[C, X, P]) Show(c C) P {
	x := r.used.Get().(P)
	r.fill(x, c)
	return x
}

// Done takes x back. Nobody may use it any more.
func (r *Reused[C, X, P]) Done(x P) {
	*x = *new(X) // so that it keeps no request
	r.used.Put(x)
}

// Decision is what a limiter stores with a request.
type Decision struct {
	kept    hook.Kept
	limiter *core.Limiter // nil: this is a note
	key     string        // of the decision; or the text of the note
	outer   *Decision     // of the limiter in front
	by      *middleware
	log     func(*slog.Logger) // of a note: what to log
}

// middleware is one middleware, whatever its framework. Decisions point to the one that made them.
type middleware struct {
	// Each warning is logged once.
	warnTwice, warnNoKey, warnShadowError sync.Once
	warnedRoute                           atomic.Bool
}

// madeBy reports whether m made d or one in front of it.
func (d *Decision) madeBy(m *middleware) bool {
	for ; d != nil; d = d.outer {
		if d.by == m {
			return true
		}
	}
	return false
}

// decided is a Decision whose result writes header fields. Both are one allocation.
type decided struct {
	Decision
	room field.Room
}

// result returns the Result of a decision.
func (d *Decision) result() core.Result { return kept(&d.kept, d.limiter, d.key) }

// note returns what ByRoute leaves for the engine: a Decision without a limiter, whose key is advice. ByIP leaves one that logs.
func note(advice string, outer *Decision) *Decision { return &Decision{key: advice, outer: outer} }

// isNote reports whether d is a note. A note holds no decision.
func (d *Decision) isNote() bool { return d.limiter == nil }

// FromContext returns the Result of the newest decision. kept is what the request's Kept returns. An adapter's own
// FromContext calls it.
func FromContext(kept any) (core.Result, bool) {
	d, _ := kept.(*Decision)
	for d != nil && d.isNote() {
		d = d.outer
	}
	if d == nil {
		return core.Result{}, false
	}
	return d.result(), true
}

// AllFromContext returns the Results of all decisions about a request, the newest first. kept is what the request's Kept
// returns.
func AllFromContext(kept any) (all []core.Result) {
	for d, _ := kept.(*Decision); d != nil; d = d.outer {
		if !d.isNote() {
			all = append(all, d.result())
		}
	}
	return all
}

// KeyFunc returns the key of a request: who or what is limited. A missing value is [core.ErrNoKey].
//
// Every extractor of this package puts its kind and the name of its field into the key, so the API key "192.0.2.1"
// and the address 192.0.2.1 never share a bucket. Values are those that the framework gives its handlers, so an app
// and its limiter see the same client. Values of any length are safe: see [core.JoinKey].
//
// If an extractor's arguments are wrong, New panics: see [Mistake].
type KeyFunc func(Exchange) (string, error)
