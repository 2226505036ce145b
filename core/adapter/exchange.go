// Package adapter holds what rate-limiting middleware has in common in every framework: the engine that decides
// requests, the key extractors, the status codes and the header fields. An adapter adds three things: it shows the
// framework's request as an [Exchange], it names these functions in the framework's types, and it writes refusals
// the way the framework does. Package adaptertest checks the result.
package adapter

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core"
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

// Decision is what a limiter stores with a request.
type Decision struct {
	Result core.Result

	limiter *core.Limiter
	key     string
	outer   *Decision // of the limiter in front

	advice string // of a note only
}

// isNote reports whether d is a note that ByRoute left for the engine. A note holds no decision.
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
	return d.Result, true
}

// KeyFunc returns the key of a request: who or what is limited. A missing value is [core.ErrNoKey].
//
// Every extractor of this package puts its kind and the name of its field into the key, so the API key "192.0.2.1"
// and the address 192.0.2.1 never share a bucket. Values are those that the framework gives its handlers, so an app
// and its limiter see the same client. Values of any length are safe: see [core.JoinKey].
//
// If an extractor's arguments are wrong, New panics: see [Mistake].
type KeyFunc func(Exchange) (string, error)
