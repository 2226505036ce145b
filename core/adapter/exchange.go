// Package adapter is the part of a rate-limiting middleware that is the same in every framework: the
// order of things, key extractors, status codes, headers. What remains for an adapter is to show its
// framework's request as an [Exchange], to name these functions in its own types, and to write a
// refusal the way its framework does. Package adaptertest checks the result.
package adapter

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Decision is what a request keeps of a limiter it came by.
type Decision struct {
	Result core.Result

	limiter *core.Limiter
	key     string
	outer   *Decision // of the limiter before

	// unrouted is ByRoute's advice. A Decision that has it is none, but a note for the engine.
	unrouted string
}

// FromContext is what an adapter's FromContext returns of what its requests keep.
func FromContext(kept any) (core.Result, bool) {
	d, _ := kept.(*Decision)
	for d != nil && d.limiter == nil { // a note
		d = d.outer
	}
	if d == nil {
		return core.Result{}, false
	}
	return d.Result, true
}

// Exchange is one HTTP request and the header of its response, as a framework shows them. Methods
// return what was sent; "" or nil where there is nothing. The strings need
// only be valid while the request is handled.
type Exchange interface {
	Context() context.Context
	Method() string
	Path() string // as requested, percent-decoded, such as /items/7
	// Route is the pattern that matched, such as /items/{id}. It is not known when none did, or when the
	// framework has not routed the request yet.
	Route() (pattern string, known bool)
	RemoteAddr() string   // of the connection's peer
	ContentLength() int64 // of the body, in bytes; -1 when it is not known
	Header(name string) []string
	Cookie(name string) string // as the framework gives it to handlers, decoded if it decodes
	Query(name string) string
	Param(name string) string // of the route, percent-decoded
	Value(key any) any        // what earlier middleware left in the request's context

	// Keep leaves the decision with the request, for handlers and for Kept. Kept returns what was
	// kept last, or nil. What an extractor keeps, the engine's Exchange must show: ByRoute leaves a note so.
	Keep(d *Decision)
	Kept() *Decision

	// Response is where the response's header fields are written, before its body is.
	Response() core.HeaderWriter
}
