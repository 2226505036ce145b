package middleware

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Request is what the engine needs of a request, and of its response, in any protocol.
type Request interface {
	Context() context.Context
	Path() string // for the log: of HTTP the path, of an RPC the procedure

	// SetDecision stores a decision with the request, for handlers and for Decision, which returns what was stored last, or
	// nil. Key functions store a [Marker] this way.
	SetDecision(d *Decision)
	Decision() *Decision

	// Response returns where the response's header fields, or its metadata, are set. Nil sends none.
	Response() core.HeaderWriter
}
