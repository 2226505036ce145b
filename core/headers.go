package core

import (
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
	"github.com/tokenbucket-go/ratelimit/core/internal/header"
)

// HeaderWriter writes response headers: an [net/http.Header], or a framework's own type.
type HeaderWriter interface {
	Get(name string) string
	Set(name, value string)
	Add(name, value string)
}

// WriteHeaders writes the header fields of the policy's style to h. If another limiter has already written to h,
// WriteHeaders adds members to the list fields. Fields of one value it keeps or replaces, so that they describe the
// decision that constrains the client more. If h is an [net/http.Header], WriteHeaders allocates once.
func (r Result) WriteHeaders(h HeaderWriter) { r.writeHeaders(new(field.Room), h) }

// writesHeaders reports whether WriteHeaders writes anything.
func (r *Result) writesHeaders() bool {
	return r.plan != nil && (r.headers != HeadersNone || !r.Allowed)
}

// writeHeaders is WriteHeaders with values in room.
func (r *Result) writeHeaders(room *field.Room, h HeaderWriter) {
	if !r.writesHeaders() {
		return
	}
	d := header.Decision{
		Texts: r.plan.texts, Plan: r.plan.Plan, Answer: &r.answer, Cost: r.Cost, Each: r.each, Style: header.Style(r.headers),
		Allowed: r.Allowed, RetryAfter: r.RetryAfter, Tightest: int(r.tightest), Remaining: r.Remaining,
	}
	d.Write(h, room)
}
