// Package advice reads what the answers of rate-limited services say of limits:
// when to come back, and what is left. It knows the header fields of RFC 9110,
// of the IETF drafts, and of large providers. It trusts none of them: what
// can't be meant is left out, and a hostile answer costs no more than another.
package advice

import (
	"strings"
	"time"
)

// Advice is what one answer says of limits. The zero Advice is that of an
// answer that says nothing.
type Advice struct {
	// RetryAfter is how long to wait before the next request, as the field
	// Retry-After says it; 0 if it does not.
	RetryAfter time.Duration

	// Quotas is what is left, of each limit that the answer tells of: at most
	// [MaxQuotas].
	Quotas []Quota
}

// Quota is what is left of one limit.
type Quota struct {
	Unit  string        // what it counts, such as [Requests] or "tokens"
	Limit int64         // the most that can be left; 0: not said
	Left  int64         // at least 0
	Reset time.Duration // until the limit is reset, or full; 0: not said
	Whole bool          // Reset was said in whole seconds, rounded up
}

// Requests is the unit of limits that name none.
const Requests = "requests"

// MaxQuotas is how many quotas of an answer count.
const MaxQuotas = 16

// Fields returns the values of a header field, in their order. Its name has the
// canonical form of net/http.
type Fields func(name string) []string

// Read returns the advice of an answer that came at an instant. The costs don't
// depend on what the answer holds: of each field it reads a few values of
// bounded length.
func Read(fields Fields, now time.Time) Advice {
	c := clock{now: now, date: date(first(fields("Date")))}
	var a Advice
	if d, ok := c.until(first(fields("Retry-After"))); ok {
		a.RetryAfter = d.left
	}
	for _, read := range []func(Fields, clock) []Quota{structured, single, provider} {
		if a.Quotas = read(fields, c); len(a.Quotas) > 0 {
			break
		}
	}
	return a
}

// first returns the first of the values, if it is short enough to be meant, or
// "".
func first(values []string) string {
	if len(values) == 0 || len(values[0]) > 64 {
		return ""
	}
	return strings.TrimSpace(values[0])
}
