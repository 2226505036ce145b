package grpclimit

import (
	"context"
	"reflect"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// state is what all interceptors of one call share. The first one makes it the
// call's context. It sends the fields of all of them once it is known whether
// the call has header metadata. State is a [core.HeaderWriter] of these fields.
type state struct {
	context.Context
	transport grpc.ServerTransportStream // nil: there is none
	decision  middleware.Decisions

	mu       sync.Mutex
	fields   metadata.MD // to send
	pushback string      // of a denial, else ""
	denial   codes.Code  // the code of the denial's error
}

type stateKey struct{}

// Value returns the state itself for its key.
func (s *state) Value(key any) any {
	if key == (stateKey{}) {
		return s
	}
	return s.Context.Value(key)
}

// stateOf returns the state of a call, and the context that has it. first
// reports that it is new. A call within the handler of another one, in the same
// process, has a transport of its own.
func stateOf(ctx context.Context) (s *state, with context.Context, first bool) {
	transport := grpc.ServerTransportStreamFromContext(ctx)
	if s, ok := ctx.Value(stateKey{}).(*state); ok && same(s.transport, transport) {
		return s, ctx, false
	}
	s = &state{Context: ctx, transport: transport}
	return s, s, true
}

// same reports whether two transports are one. Those that can't be compared
// count as one.
func same(a, b grpc.ServerTransportStream) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return !reflect.TypeOf(a).Comparable() || !reflect.TypeOf(b).Comparable() || a == b
}

// stored returns the decisions about the call with the context ctx, or nil.
func stored(ctx context.Context) any {
	if s, ok := ctx.Value(stateKey{}).(*state); ok {
		return s.decision.Load()
	}
	return nil
}

// Get returns the first value of a field, or "".
func (s *state) Get(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if values := s.fields.Get(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set replaces a field. It drops Cache-Control: nobody caches calls, and
// net/http, which can serve gRPC, complains of such a trailer.
func (s *state) Set(name, value string) {
	if strings.EqualFold(name, "Cache-Control") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fields == nil {
		s.fields = make(metadata.MD)
	}
	s.fields.Set(name, value)
}

// Add adds a value to a field.
func (s *state) Add(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fields == nil {
		s.fields = make(metadata.MD)
	}
	s.fields.Append(name, value)
}

// sendHeader makes the fields header metadata, unless the handler has sent the
// header already: then they stay.
func (s *state) sendHeader(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.fields) > 0 && grpc.SetHeader(ctx, s.fields) == nil {
		s.fields = nil
	}
}

// send sends what is left when the call is over, with the code of its answer:
// as trailers if it failed, because clients retry only failures without a
// header.
func (s *state) send(ctx context.Context, code codes.Code) {
	if code == codes.OK {
		s.sendHeader(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pushback != "" && s.denial == code { // the handler may have ignored a denial of Allow, and failed for another reason
		_ = grpc.SetTrailer(ctx, metadata.Pairs(middleware.PushbackField, s.pushback)) // it fails only without a transport, in tests of apps
	}
	_ = grpc.SetTrailer(ctx, s.fields)
	s.fields = nil
}

// pushBack tells clients when to try again, if the call is answered with the
// code of the denial.
func (s *state) pushBack(milliseconds string, denial codes.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pushback, s.denial = milliseconds, denial
}
