// Package adapter holds what rate-limiting middleware for HTTP has in common in
// every framework: the engine that decides requests, the key extractors, the
// status codes and the header fields. What holds in any protocol is in package
// middleware. An adapter adds three things: it makes a [Request] of the
// framework's request, it names these functions in the framework's types, and
// it writes refusals the way the framework does. Package adaptertest checks the
// result.
//
// See [docs/adapters.md].
//
// [docs/adapters.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/adapters.md
package adapter

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Request is one HTTP request and the header of its response, as a framework
// has them. Methods return what the client sent, and "" or nil if there is
// nothing. Strings are valid only while the request is handled.
type Request interface {
	Context() context.Context
	Method() string
	Path() string // as requested, percent-decoded, such as /items/7
	// Route returns the pattern that matched, such as /items/{id}. The pattern
	// is not known if no route matched, or if the framework has not routed the
	// request yet.
	Route() (pattern string, known bool)
	RemoteAddr() string   // of the connection's peer
	LocalAddr() net.Addr  // of the connection's own end, or nil if it is not known: its network says what RemoteAddr is
	ContentLength() int64 // of the body, in bytes; -1 if it is not known
	Header(name string) []string
	Cookie(name string) string // as handlers read it: decoded if the framework decodes it
	Query(name string) string
	Param(name string) string // of the route, percent-decoded
	Value(key any) any        // what earlier middleware left in the request's context

	// SetDecision stores a decision with the request, for handlers and for
	// Decision, which returns what was stored last, or nil. ByRoute stores a
	// marker this way, so the engine's Request must return what an extractor's
	// Request stored.
	SetDecision(d *middleware.Decision)
	Decision() *middleware.Decision

	// Response returns the header of the response. Its fields are set before
	// the body is written.
	Response() core.HeaderWriter
}

// LocalAddr returns Request.LocalAddr of a request that a server of net/http
// serves with ctx.
func LocalAddr(ctx context.Context) net.Addr {
	local, _ := ctx.Value(http.LocalAddrContextKey).(net.Addr)
	return local
}

// Peer is a Request of a framework that has the peer's address in binary. It
// spares ByIP the text.
type Peer interface {
	RemoteIP() netip.Addr // the zero Addr if RemoteAddr tells more
}

// KeyFunc returns the key of a request: who or what is limited. A missing value
// is [core.ErrNoKey].
//
// Every extractor of this package puts its kind and the name of its field into
// the key, so the API key "192.0.2.1" and the address 192.0.2.1 never share a
// bucket: see [Key]. Values are those that the framework gives its handlers, so
// an app and its limiter see the same client.
//
// If an extractor's arguments are wrong, New panics: see [ArgumentError].
type KeyFunc func(Request) (string, error)

// Pool reuses the Requests *X of framework requests C. It is for adapters whose
// Request is not just a pointer, and so would take an allocation each time.
type Pool[C, X any, P requestOf[X]] struct {
	fill func(P, C)
	free sync.Pool
}

type requestOf[X any] interface {
	*X
	Request
}

// NewPool returns a Pool. fill sets up a Request for a framework's request.
func NewPool[C, X any, P requestOf[X]](fill func(P, C)) *Pool[C, X, P] {
	return &Pool[C, X, P]{fill: fill, free: sync.Pool{New: func() any { return P(new(X)) }}}
}

// Get returns the Request of c. Give it back with Put.
func (p *Pool[C, X, P]) Get(c C) P {
	x := p.free.Get().(P)
	p.fill(x, c)
	return x
}

// Put takes x back. Nobody may use it any more.
func (p *Pool[C, X, P]) Put(x P) {
	*x = *new(X) // so that it keeps no framework's request
	p.free.Put(x)
}

// ByRoute limits by the pattern of the route that matched, without its method.
// Its keys are such as route:/items/{id}.
// All requests whose route is not known share one key: those that match no
// route, and those that the framework has not routed yet. If such a request is
// answered with a status below 400, it has a route after all, and the
// middleware logs a warning once. The warning ends with advice, which says what
// to write instead in the framework.
func ByRoute(advice string) KeyFunc {
	return func(x Request) (string, error) {
		pattern, known := x.Route()
		if !known {
			x.SetDecision(middleware.Marker(advice, nil, x.Decision()))
		}
		return Key("route", pattern), nil
	}
}

// WithoutMethod removes the method from a pattern of [http.ServeMux], [METHOD
// ][HOST]/[PATH]: methods are limited by ByMethod.
func WithoutMethod(pattern string) string {
	if method, rest, ok := strings.Cut(pattern, " "); ok && !strings.Contains(method, "/") {
		return strings.TrimLeft(rest, " \t")
	}
	return pattern
}

// DecodeParam percent-decodes a parameter of r's route. It is for routers on
// net/http that match URL.RawPath if it is set, and the decoded path if it is
// not.
func DecodeParam(r *http.Request, value string) string {
	if r.URL.RawPath == "" {
		return value
	}
	if decoded, err := url.PathUnescape(value); err == nil {
		return decoded
	}
	return value
}
