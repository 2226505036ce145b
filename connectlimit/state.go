package connectlimit

import (
	"context"
	"net/http"
	"reflect"
	"sync"

	"connectrpc.com/connect"

	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// state is what all interceptors of one call share. The first one keeps it in
// the context. It sends the fields of all of them once it is known where they
// go. State is a [core.HeaderWriter] of these fields.
type state struct {
	decision middleware.Decisions
	request  http.Header // of the call: its identity
	protocol string
	response response // nil in tests of apps without a server

	mu         sync.Mutex  // messages are received while others are sent
	fields     http.Header // to send
	headerSent bool
}

// response is where a call's fields go.
type response interface {
	ResponseHeader() http.Header
	ResponseTrailer() http.Header
}

type stateKey struct{}

// stateOf returns the state of a call with a request's header, and the context
// that has it. first reports that it is new. The context may have the state of
// another call: handlers call others within the process, through transports
// that keep contexts.
func stateOf(ctx context.Context, request http.Header) (s *state, with context.Context, first bool) {
	if s, ok := ctx.Value(stateKey{}).(*state); ok && reflect.ValueOf(s.request).Pointer() == reflect.ValueOf(request).Pointer() {
		return s, ctx, false
	}
	s = &state{request: request}
	return s, context.WithValue(ctx, stateKey{}, s), true
}

// stored returns the decisions about the call with the context ctx, or nil.
func stored(ctx context.Context) any {
	if s, ok := ctx.Value(stateKey{}).(*state); ok {
		return s.decision.Load()
	}
	return nil
}

// answer has the fields go to the answer of a unary call.
func (s *state) answer(ctx context.Context, peer connect.Peer) {
	s.protocol = peer.Protocol
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
		s.response = info
	}
}

// header returns the fields to send. While the handler runs, hold mu.
func (s *state) header() http.Header {
	if s.fields == nil {
		s.fields = make(http.Header)
	}
	return s.fields
}

// Get returns the first value of a field, or "".
func (s *state) Get(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fields.Get(name)
}

// Set replaces a field.
func (s *state) Set(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.header().Set(name, value)
}

// Add adds a value to a field.
func (s *state) Add(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.header().Add(name, value)
}

// sendHeader makes the fields headers, before the first message of a stream is
// sent.
func (s *state) sendHeader() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.headerSent {
		s.headerSent = true
		s.move(s.response.ResponseHeader)
	}
}

// finish sends what is left when the call is over. Clients of gRPC get what
// belongs to an error in trailers.
func (s *state) finish(failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.response == nil:
	case s.headerSent || failed && s.protocol != connect.ProtocolConnect:
		delete(s.fields, "Cache-Control") // no cache reads trailers, and net/http logs each that is not allowed there
		s.move(s.response.ResponseTrailer)
	default:
		s.move(s.response.ResponseHeader)
	}
}

// move moves the fields to those that to returns. It requires that mu is held.
func (s *state) move(to func() http.Header) {
	if len(s.fields) == 0 {
		return
	}
	into := to()
	for name, values := range s.fields {
		if before, ok := into[name]; ok {
			values = append(before, values...)
		}
		into[name] = values
	}
	s.fields = nil
}
