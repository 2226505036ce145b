// Package header writes the header fields that tell clients about a decision. It
// is a package because the formats need no limiter, and core only chooses one.
package header

import (
	"math"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
)

// Names of header fields in the canonical form of net/http. Names are case-insensitive (RFC 9110, 5.1).
const (
	legacyLimit     = "X-Ratelimit-Limit"
	legacyRemaining = "X-Ratelimit-Remaining"
	legacyReset     = "X-Ratelimit-Reset"
	draft6Limit     = "Ratelimit-Limit"
	draft6Remaining = "Ratelimit-Remaining"
	draft6Reset     = "Ratelimit-Reset"
	policyField     = "Ratelimit-Policy"
	rateLimitField  = "Ratelimit"
)

// Never is the delay of a request that can never be allowed.
const Never time.Duration = math.MaxInt64

// Decision is what header fields tell about.
type Decision struct {
	Texts  *Texts
	Plan   *bucket.Plan
	Answer *bucket.Answer
	Cost   int64 // what was asked: see [bucket.Plan.CostOf]
	Each   *[]int64
	Style  Style

	Allowed    bool
	RetryAfter time.Duration
	Tightest   int   // index of the tightest limit
	Remaining  int64 // whole tokens that it has left
}

// Write writes the fields to h, with values in room.
func (d *Decision) Write(h field.Header, room *field.Room) {
	w := field.To(h, room)
	if !d.Allowed {
		if d.RetryAfter != Never {
			w.SetInt("Retry-After", seconds(d.RetryAfter))
		}
		w.Set("Cache-Control", "no-store")
	}
	style := d.Style
	if style == 0 {
		style = Legacy | Draft8
	}
	if style&Draft8 != 0 {
		addPolicy(&w, d.Texts.policy)
		text := w.Text()
		w.Add(rateLimitField, w.Append(text, d.appendDraft8(text)))
	}
	if style&Draft6 != 0 {
		addPolicy(&w, d.Texts.draft6)
	}
	if style&(Legacy|Draft6) == 0 {
		return
	}
	capacity := d.Texts.capacities[d.Tightest]
	untilFull := d.Answer.ResetAfter(d.Plan, d.Tightest)
	if style&Legacy != 0 && d.tighterThan(w.Get(legacyRemaining)) {
		w.Set(legacyLimit, capacity)
		w.SetInt(legacyRemaining, d.Remaining)
		w.SetInt(legacyReset, ceilSeconds(d.Answer.Now+untilFull))
	}
	if style&Draft6 != 0 && d.tighterThan(w.Get(draft6Remaining)) {
		w.Set(draft6Limit, capacity)
		w.SetInt(draft6Remaining, d.Remaining)
		w.SetInt(draft6Reset, ceilSeconds(untilFull))
	}
}

// addPolicy adds value to RateLimit-Policy, unless another limiter has written the field in the other style: clients
// can't read a list that mixes both.
func addPolicy(w *field.Writer, value string) {
	if before := w.Get(policyField); before == "" || (before[0] == '"') == (value[0] == '"') {
		w.Add(policyField, value)
	}
}

// tighterThan reports whether d constrains the client more than the decision of another limiter. remaining is the field
// that the other limiter wrote, or "". If both have the same number left, d is tighter: only the last decision can be
// a denial.
func (d *Decision) tighterThan(remaining string) bool {
	if remaining == "" {
		return true
	}
	before, err := strconv.ParseInt(remaining, 10, 64)
	return err != nil || !d.Allowed || d.Remaining <= before
}

// appendDraft8 appends the value of the RateLimit field: "burst";r=7;t=1, "daily";r=900;t=3600
func (d *Decision) appendDraft8(b []byte) []byte {
	for i := range d.Plan.Rates {
		if i > 0 {
			b = append(b, ", "...)
		}
		remaining, effective := d.window(i)
		b = append(b, d.Texts.members[i]...)
		b = append(b, ";r="...)
		b = strconv.AppendInt(b, remaining, 10)
		if effective != Never {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, seconds(effective), 10)
		}
	}
	return b
}

// window returns what the RateLimit field says of the i-th limit: how many tokens the client can use, and for how long
// that holds. If the client can use none, effective is how long to wait, or Never.
func (d *Decision) window(i int) (remaining int64, effective time.Duration) {
	if !d.Allowed {
		if retry := d.Answer.RetryAfter(d.Plan, i, d.Plan.CostOf(i, d.Cost, d.Each)); retry == bucket.Never {
			return 0, Never
		} else if retry > 0 {
			return 0, duration(retry)
		}
	}
	p := d.Plan
	remaining = d.Answer.Remaining(p, i)
	switch {
	case remaining == 0:
		return 0, duration(d.Answer.RetryAfter(p, i, 1))
	case d.Texts.limits[i].Mode == bucket.Concurrent: // nobody knows when others are released
		return remaining, Never
	case d.Texts.limits[i].Mode == bucket.Continuous:
		return remaining, duration(d.Answer.EarnedIn(p, i)) // T/ρ
	default:
		return remaining, duration(d.Answer.NextStep(p, i))
	}
}

// seconds rounds d up to whole seconds, at least 1. A client that came back earlier would be denied again.
func seconds(d time.Duration) int64 {
	return max(1, int64((d-1)/time.Second)+1)
}

// ceilSeconds converts µs to seconds, rounded up.
func ceilSeconds(micros int64) int64 { return (micros + 999_999) / 1_000_000 }

// duration converts µs to a time.Duration.
func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }
