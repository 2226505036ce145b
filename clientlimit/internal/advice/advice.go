// Package advice reads what the answers of rate-limited services say of limits:
// when to come back, and what is left. It knows the fields of RFC 9110, of the
// IETF drafts, and of large providers. It trusts none of them: what can't be
// meant is left out, and a hostile answer costs no more than another.
package advice

import (
	"cmp"
	"net/http"
	"strings"
	"time"
)

// Advice is what one answer says of limits. The zero Advice is that of an
// answer that says nothing.
type Advice struct {
	// RetryAfter is how long to wait before the next request, by the fields
	// Retry-After-Ms and Retry-After; 0 if they don't say.
	RetryAfter time.Duration

	// Quotas is what is left of each limit that the answer tells of: at most
	// [MaxQuotas].
	Quotas []Quota

	// Name is what the service calls the limit that decided, if it has several:
	// by the fields X-RateLimit-Resource of GitHub and X-RateLimit-Bucket of
	// Discord. "": it does not say.
	Name string
}

// Quota is what is left of one limit.
type Quota struct {
	Unit  string        // what it counts, such as [Requests] or "tokens"
	Left  int64         // at least 0
	Reset time.Duration // until the limit is reset, or full; 0: not said
	Whole bool          // Reset was said in whole seconds, rounded up
}

// Requests is the unit of limits that name none.
const Requests = "requests"

// slots is the unit of limits on requests in flight. They say nothing of rates,
// and what is left of them changes when the answer is over.
const slots = "concurrent-requests"

// MaxQuotas is how many quotas of an answer count.
const MaxQuotas = 16

// Read returns the advice of an answer that came at now. Its cost does not
// depend on what the answer holds: of each field it reads a few values of
// bounded length.
func Read(h http.Header, now time.Time) Advice {
	c := clock{now: now, date: date(first(h, "Date"))}
	a := Advice{RetryAfter: c.retryAfter(h), Name: cmp.Or(first(h, "X-Ratelimit-Resource"), first(h, "X-Ratelimit-Bucket"))}
	if age, ok := count(first(h, "Age")); ok && age > 0 {
		return a // what a cache kept says nothing of what is left now
	}
	if a.Quotas = structured(h, c); len(a.Quotas) > 0 {
		return a
	}
	for _, d := range dialects {
		for _, f := range d {
			if q, ok := f.read(h, c); ok {
				a.Quotas = append(a.Quotas, q)
			}
		}
		if len(a.Quotas) > 0 {
			break
		}
	}
	return a
}

// fields are the names of those that tell of one limit, with a value each.
type fields struct {
	unit, left string
	resets     []string // the first that can be read counts
}

// dialects are the fields that services send. Of an answer the first dialect
// counts that it speaks.
var dialects = [][]fields{
	{plain("Ratelimit")},    // drafts 0 to 6; GitLab
	{plain("X-Ratelimit")},  // GitHub, Discord and many others
	{plain("X-Rate-Limit")}, // Twitter
	{
		openAI("Requests", Requests), openAI("Tokens", "tokens"),
		anthropic("Requests", Requests), anthropic("Tokens", "tokens"),
		anthropic("Input-Tokens", "input-tokens"), anthropic("Output-Tokens", "output-tokens"),
	},
}

func plain(prefix string) fields {
	return fields{Requests, prefix + "-Remaining", []string{prefix + "-Reset-After", prefix + "-Reset", prefix + "-Resettime"}}
}

// openAI returns the fields of OpenAI, and of many with its interface. Resets
// are durations: 6m0s, 20ms.
func openAI(name, unit string) fields {
	return fields{unit, "X-Ratelimit-Remaining-" + name, []string{"X-Ratelimit-Reset-" + name}}
}

// anthropic returns the fields of Anthropic. Resets are dates of RFC 3339.
func anthropic(name, unit string) fields {
	return fields{unit, "Anthropic-Ratelimit-" + name + "-Remaining", []string{"Anthropic-Ratelimit-" + name + "-Reset"}}
}

// read returns the quota that the fields of an answer tell of.
func (f fields) read(h http.Header, c clock) (q Quota, ok bool) {
	value, _, _ := strings.Cut(first(h, f.left), ",")
	if q.Left, ok = count(strings.TrimSpace(value)); !ok {
		return Quota{}, false
	}
	q.Unit = f.unit
	for _, name := range f.resets {
		if d := c.until(first(h, name)); d.left > 0 {
			q.Reset, q.Whole = d.left, d.whole
			break
		}
	}
	return q, true
}

// first returns the first value of a field, if it is short enough to be meant,
// or "". The name has the canonical form of net/http.
func first(h http.Header, name string) string {
	values := h[name]
	if len(values) == 0 || len(values[0]) > 64 {
		return ""
	}
	return strings.TrimSpace(values[0])
}
