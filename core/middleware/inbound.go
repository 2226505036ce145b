package middleware

import (
	"context"
	"net"
	"net/textproto"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Inbound is a call as the engine and extractors for HTTP read it, in a
// protocol whose answers have no header fields and whose calls may come without
// HTTP. A pointer to it is an adapter.Request.
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
func (x *Inbound) Decision() *Decision { return x.Decisions.Load() }

// SetDecision stores a decision with the call.
func (x *Inbound) SetDecision(d *Decision) { x.Decisions.Store(d) }

// Header returns the values of a header field.
func (x *Inbound) Header(name string) []string {
	return x.Fields[textproto.CanonicalMIMEHeaderKey(name)]
}

// RemoteAddr returns "": it is not known.
func (x *Inbound) RemoteAddr() string { return "" }

// LocalAddr returns nil: it is not known.
func (x *Inbound) LocalAddr() net.Addr { return nil }

// Response returns nil: answers have no header fields.
func (x *Inbound) Response() core.HeaderWriter { return nil }

type decisionsKey struct{}

// stored is what a context has.
type stored struct {
	Decisions
	call any
}

// DecisionsIn returns where the decisions about a call are, and the context that
// has it. The middleware of one call share it. call identifies the call and is
// comparable: ctx may have the decisions about another one, since handlers make
// calls of their own to servers in the same process, with their context.
func DecisionsIn(ctx context.Context, call any) (*Decisions, context.Context) {
	if s, ok := ctx.Value(decisionsKey{}).(*stored); ok && s.call == call {
		return &s.Decisions, ctx
	}
	s := &stored{call: call}
	return &s.Decisions, context.WithValue(ctx, decisionsKey{}, s)
}

// DecisionsOf returns where the decisions about the call with the handler's
// context ctx are. Without middleware that is nowhere else.
func DecisionsOf(ctx context.Context) *Decisions {
	if s, ok := ctx.Value(decisionsKey{}).(*stored); ok {
		return &s.Decisions
	}
	return new(Decisions)
}

// Stored returns the decisions that a context from [DecisionsIn] has, or nil, for
// [FromContext].
func Stored(ctx context.Context) any { return DecisionsOf(ctx).Load() }
