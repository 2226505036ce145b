package rpc

import (
	"context"
	"net/textproto"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Inbound is a call as the engine and extractors for HTTP read it, in a protocol whose answers have no header fields and whose
// calls may come without HTTP. A pointer to it is an adapter.Request.
type Inbound struct {
	Procedure
	Ctx       context.Context
	Fields    map[string][]string // of the HTTP request, with canonical names; nil without HTTP
	Decisions *Decisions
}

// Context returns the call's context.
func (x *Inbound) Context() context.Context { return x.Ctx }

// Value returns what the call's context has.
func (x *Inbound) Value(key any) any { return x.Ctx.Value(key) }

// Decision returns what was stored last, or nil.
func (x *Inbound) Decision() *middleware.Decision { return x.Decisions.Load() }

// SetDecision stores a decision with the call.
func (x *Inbound) SetDecision(d *middleware.Decision) { x.Decisions.Store(d) }

// Header returns the values of a header field.
func (x *Inbound) Header(name string) []string {
	return x.Fields[textproto.CanonicalMIMEHeaderKey(name)]
}

// RemoteAddr returns "": it is not known.
func (x *Inbound) RemoteAddr() string { return "" }

// Response returns nil: answers have no header fields.
func (x *Inbound) Response() core.HeaderWriter { return nil }

type decisionsKey struct{}

// InContext returns where the decisions about the call with the context ctx are, and the context that has it. The middleware of one
// call share it.
func InContext(ctx context.Context) (*Decisions, context.Context) {
	if d, ok := ctx.Value(decisionsKey{}).(*Decisions); ok {
		return d, ctx
	}
	d := new(Decisions)
	return d, context.WithValue(ctx, decisionsKey{}, d)
}

// Stored returns the decisions that a context from [InContext] has, or nil, for [middleware.FromContext].
func Stored(ctx context.Context) any {
	if d, ok := ctx.Value(decisionsKey{}).(*Decisions); ok {
		return d.Load()
	}
	return nil
}
