package middleware

import (
	"context"
	"log/slog"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
)

// Decision is what a limiter stores with a request.
type Decision struct {
	packed  hook.PackedResult
	limiter *core.Limiter // nil: this is a marker
	key     string        // of the decision; or the text of the marker
	outer   *Decision     // of the limiter in front
	by      *middleware
	log     func(*slog.Logger) // of a marker: what to log
}

// middleware is one middleware: decisions point to the one that made them.
type middleware struct {
	*warnings
	inHandler bool // it decides one request, within its handler
}

// inHandlers has the warnings of decisions within handlers, by policy.
var inHandlers sync.Map // of string to *warnings

// madeBy reports whether m made d or one in front of it.
func (d *Decision) madeBy(m *middleware) bool {
	for ; d != nil; d = d.outer {
		if d.by == m {
			return true
		}
	}
	return false
}

// replaced returns the decisions that are left when the same bucket is asked
// again within the handler, d and those in front of it but for that of the
// bucket. So a handler that asks in a loop keeps one for each bucket.
func (d *Decision) replaced(limiter *core.Limiter, key string) *Decision {
	switch {
	case d == nil:
		return nil
	case !d.isMarker() && d.by.inHandler && d.limiter.Name() == limiter.Name() && d.key == key:
		return d.outer
	}
	outer := d.outer.replaced(limiter, key)
	if outer == d.outer {
		return d
	}
	left := *d // others may still read d
	left.outer = outer
	return &left
}

// decided is a Decision with memory for header fields, in one allocation.
type decided struct {
	Decision
	room field.Room
}

// result returns the Result of a decision.
func (d *Decision) result() core.Result { return unpack(&d.packed, d.limiter, d.key) }

// isMarker reports whether d is a marker. A marker holds no decision.
func (d *Decision) isMarker() bool { return d.limiter == nil }

// FromContext returns the Result of the newest decision. stored is what the
// request's Decision returns. An adapter's own FromContext calls it.
func FromContext(stored any) (core.Result, bool) {
	d, _ := stored.(*Decision)
	for d != nil && d.isMarker() {
		d = d.outer
	}
	if d == nil {
		return core.Result{}, false
	}
	return d.result(), true
}

// AllFromContext returns the Results of all decisions about a request, the
// newest first. stored is what the request's Decision returns.
func AllFromContext(stored any) (all []core.Result) {
	for d, _ := stored.(*Decision); d != nil; d = d.outer {
		if !d.isMarker() {
			all = append(all, d.result())
		}
	}
	return all
}

// Marker returns what a key function leaves with a request for the engine: a
// Decision without a limiter. The engine removes it, and calls log with its
// logger. Without a log, the advice is that of the [Admission].
func Marker(advice string, log func(*slog.Logger), outer *Decision) *Decision {
	return &Decision{key: advice, log: log, outer: outer}
}

// takeMarkers removes the markers that key functions left since the request's
// decision was before. What ByIP left is logged to log. takeMarkers returns the
// decision that is left, and the advice of ByRoute, or "" if there is none.
func takeMarkers(x Request, before *Decision, log func() *slog.Logger) (d *Decision, advice string) {
	d = x.Decision()
	if d == before || d == nil || !d.isMarker() {
		return d, ""
	}
	for ; d != before && d != nil && d.isMarker(); d = d.outer {
		if d.log != nil {
			d.log(log())
		} else {
			advice = d.key
		}
	}
	x.SetDecision(before)
	return before, advice
}

// Request is what the engine needs of a request, and of its response, in any
// protocol.
type Request interface {
	Context() context.Context
	Path() string // for the log: of HTTP the path, of an RPC the procedure

	// SetDecision stores a decision with the request, for handlers and for
	// Decision, which returns what was stored last, or nil. Key functions store
	// a [Marker] this way.
	SetDecision(d *Decision)
	Decision() *Decision

	// Response returns where the response's header fields, or its metadata, are
	// set. Nil sends none.
	Response() HeaderWriter
}

// HeaderWriter writes response headers: an [net/http.Header], or a framework's
// own type.
type HeaderWriter = field.Header
