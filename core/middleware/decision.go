package middleware

import (
	"context"
	"log/slog"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Decision is what a limiter stores with a request, or several limiters that
// decide together.
type Decision struct {
	shared core.SharedResult
	outer  *Decision   // of the limiter in front
	by     *middleware // nil: this is a marker
	marker *marker
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

// isMarker reports whether d is a marker. A marker holds no decision.
func (d *Decision) isMarker() bool { return d.by == nil }

// chargedTwice returns the policy of a bucket that both a decision in outer and
// r are about, or "" if there is none. A handler may ask again.
func chargedTwice(outer *Decision, r *core.Result) string {
	for ; outer != nil; outer = outer.outer {
		if outer.isMarker() || outer.by.inHandler {
			continue
		}
		before := outer.shared.Result()
		if policy := sharedBucket(&before, r); policy != "" {
			return policy
		}
	}
	return ""
}

// sharedBucket returns the policy of a bucket that both a and b are about, or
// "".
func sharedBucket(a, b *core.Result) string {
	for i := range a.Parts {
		if policy := sharedBucket(&a.Parts[i], b); policy != "" {
			return policy
		}
	}
	if a.Parts == nil && b.Parts != nil {
		return sharedBucket(b, a)
	}
	if policy := a.Policy(); a.Key == b.Key && policy == b.Policy() {
		return policy
	}
	return ""
}

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
	return d.shared.Result(), true
}

// AllFromContext returns the Results of all decisions about a request, the
// newest first. stored is what the request's Decision returns.
func AllFromContext(stored any) (all []core.Result) {
	for d, _ := stored.(*Decision); d != nil; d = d.outer {
		if !d.isMarker() {
			all = append(all, d.shared.Result())
		}
	}
	return all
}

// marker is what a key function says to the engine beside its key.
type marker struct {
	advice string
	log    func(*slog.Logger)
}

// Marker returns what a key function leaves with a request for the engine: a
// Decision without a limiter. The engine removes it, and calls log with its
// logger. Without a log, the advice is that of the [Admission].
func Marker(advice string, log func(*slog.Logger), outer *Decision) *Decision {
	return &Decision{marker: &marker{advice, log}, outer: outer}
}

// takeMarkers removes the markers that key functions left since the request's
// decision was before. What ByIP left is logged to log. takeMarkers returns the
// advice of ByRoute, or "" if there is none.
func takeMarkers(x Request, before *Decision, log func() *slog.Logger) (advice string) {
	d := x.Decision()
	if d == before {
		return ""
	}
	for ; d != before && d != nil && d.isMarker(); d = d.outer {
		if d.marker.log != nil {
			d.marker.log(log())
		} else {
			advice = d.marker.advice
		}
	}
	x.SetDecision(d)
	return advice
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
	Response() core.HeaderWriter
}
