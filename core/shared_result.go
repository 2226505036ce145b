package core

import "github.com/tokenbucket-go/ratelimit/core/internal/field"

// SharedResult is a [Result] that several parts of a program have, such as
// middleware and a handler: all of them together can undo or settle it once.
// It also has room for the header fields of one response. It is for middleware
// that allocates something for each request anyway, and must not be copied. The
// zero value shares nothing yet.
type SharedResult struct {
	result Result
	room   field.Room
}

// Share makes r, and all Results that s returns from then on, count as one. Call
// it once, before others have s.
func (s *SharedResult) Share(r *Result) {
	if r.once == nil {
		r.once = &s.result.ended
	}
	s.result = *r
}

// Result returns the shared Result.
func (s *SharedResult) Result() Result { return s.result }

// WriteHeaders is [Result.WriteHeaders] and allocates nothing for one limit with
// a short name. It may be called once, because the response points into s.
func (s *SharedResult) WriteHeaders(h HeaderWriter) { s.result.writeHeaders(&s.room, h) }
