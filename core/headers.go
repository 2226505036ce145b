package core

import (
	"math/bits"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/enum"
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// HeaderStyle is a set of header fields. Styles can be combined: HeadersLegacy
// | HeadersDraft8. Allowed and denied responses carry the same fields. A denied
// response also has Retry-After (RFC 9110, 10.2.3) and Cache-Control: no-store.
//
// Below, T is the number of tokens that a limit has left, B its capacity, and ρ
// its refill per second.
type HeaderStyle uint8

const (
	// HeadersDefault is HeadersLegacy and HeadersDraft8 together.
	HeadersDefault HeaderStyle = 0
	// HeadersLegacy sends the fields that most APIs send, for the tightest
	// limit: X-RateLimit-Limit (B), X-RateLimit-Remaining (T rounded down) and
	// X-RateLimit-Reset (the Unix second at which the bucket is full).
	HeadersLegacy HeaderStyle = 1 << (iota - 1)
	// HeadersDraft8 sends the fields of draft-ietf-httpapi-ratelimit-headers,
	// versions 8 to 11, with one member for each limit. A later version gets a
	// style of its own. They are RateLimit-Policy (q=B, w=B/ρ seconds, qu=the Unit,
	// if it is not requests) and RateLimit (r=T rounded down, t=seconds). t is
	// the time in which the tokens left refill, or, in the Stepped and Aligned
	// modes, the time until the next refill. If the limit has no token left or
	// denies, r is 0 and t is the time until it has enough.
	HeadersDraft8
	// HeadersDraft6 sends the fields of the draft's version 6, which some
	// gateways still read: RateLimit-Limit, RateLimit-Remaining and
	// RateLimit-Reset (seconds until full) for the tightest limit, and
	// RateLimit-Policy. It can't be combined with HeadersDraft8, because their
	// RateLimit-Policy differs.
	HeadersDraft6
	// HeadersNone sends only Retry-After and Cache-Control, and only with
	// denied responses.
	HeadersNone
)

// styles are the names of the bits of styles.
var styles = enum.Names{Type: "HeaderStyle", Prefix: "Headers", Of: []string{"Legacy", "Draft8", "Draft6", "None"}}

// drafts are the styles of which a response has one: their RateLimit-Policy
// differs.
const drafts = HeadersDraft8 | HeadersDraft6

// valid reports whether the styles of s can be combined.
func (s HeaderStyle) valid() bool {
	return s < 1<<len(styles.Of) && (s&HeadersNone == 0 || s == HeadersNone) && bits.OnesCount8(uint8(s&drafts)) < 2
}

// String returns the names of the styles in Go, without the package, such as
// HeadersLegacy|HeadersDraft8.
func (s HeaderStyle) String() string {
	if s == HeadersDefault {
		return "HeadersDefault"
	}
	return styles.Bits(int(s))
}

// MarshalText writes default, none, or one or more of legacy, draft8 and draft6
// with commas between them, as JSON and policy files have it.
func (s HeaderStyle) MarshalText() ([]byte, error) {
	switch {
	case s == HeadersDefault:
		return []byte("default"), nil
	case !s.valid():
		return nil, configError("Policy.Headers", s, styles.Want())
	}
	var texts []string
	for bit, text := range styles.Texts() {
		if s&(1<<bit) != 0 {
			texts = append(texts, text)
		}
	}
	return []byte(strings.Join(texts, ", ")), nil
}

// UnmarshalText reads what MarshalText writes. Which styles can be combined is
// checked by [Policy.Validate].
func (s *HeaderStyle) UnmarshalText(text []byte) error {
	sum := HeadersDefault
	if string(text) != "default" {
		for word := range strings.SplitSeq(string(text), ",") {
			bit := styles.Value(strings.TrimSpace(word))
			if bit < 0 {
				return configError("Policy.Headers", string(text), "must be default, "+enum.OneOf(styles.Texts())+", or several with commas between them")
			}
			sum |= 1 << bit
		}
	}
	*s = sum
	return nil
}

// Names of header fields, as net/http writes them.
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

// HeaderWriter is where header fields of a response are written: an
// [http.Header], or a framework's own type. Names are in the canonical form of
// net/http.
type HeaderWriter interface {
	Get(name string) string // the first value; "" if there is none
	Set(name, value string)
	Add(name, value string)
}

// WriteHeaders writes the header fields of the policy's style to h. If another
// limiter has already written to h, WriteHeaders adds members to the list
// fields. Fields of one value it keeps or replaces, so that they describe the
// decision that constrains the client more. A response has fields of one draft:
// where h has those of HeadersDraft6, WriteHeaders adds no HeadersDraft8 but
// those, and the other way round. It allocates once.
func (r Result) WriteHeaders(h HeaderWriter) { r.writeHeaders(new(field.Room), h) }

// writesHeaders reports whether WriteHeaders writes anything, if r has no Parts.
func (r *Result) writesHeaders() bool {
	return r.set != nil && (r.headers != HeadersNone || !r.Allowed)
}

// writeHeaders is WriteHeaders with values in room.
func (r *Result) writeHeaders(room *field.Room, h HeaderWriter) {
	if r.Parts != nil {
		r.writeParts(h)
		return
	}
	if !r.writesHeaders() {
		return
	}
	w := field.To(h, room)
	if !r.Allowed {
		if r.RetryAfter != Never {
			w.SetInt("Retry-After", seconds(r.RetryAfter))
		}
		w.Set("Cache-Control", "no-store")
	}
	style, texts := r.headers.in(0), r.set.texts
	if style&drafts != 0 {
		style = style.in(draftOf(w.Get(policyField)))
	}
	if style&HeadersDraft8 != 0 {
		w.Add(policyField, texts.policy)
		text := w.Text()
		w.Add(rateLimitField, w.Append(text, r.appendDraft8(text)))
	}
	if style&HeadersDraft6 != 0 {
		w.Add(policyField, texts.draft6)
	}
	if style&(HeadersLegacy|HeadersDraft6) == 0 {
		return
	}
	capacity := texts.capacities[r.tightest]
	untilFull := r.answer.ResetAfter(int(r.tightest))
	if style&HeadersLegacy != 0 && r.tighterThan(w.Get(legacyRemaining)) {
		w.Set(legacyLimit, capacity)
		w.SetInt(legacyRemaining, r.Remaining)
		w.SetInt(legacyReset, ceilSeconds(r.answer.Now+untilFull))
	}
	if style&HeadersDraft6 != 0 && r.tighterThan(w.Get(draft6Remaining)) {
		w.Set(draft6Limit, capacity)
		w.SetInt(draft6Remaining, r.Remaining)
		w.SetInt(draft6Reset, ceilSeconds(untilFull))
	}
}

// draftOf returns the style that wrote a value of RateLimit-Policy, or 0.
func draftOf(policy string) HeaderStyle {
	switch {
	case policy == "":
		return 0
	case policy[0] == '"': // the name of a limit
		return HeadersDraft8
	}
	return HeadersDraft6
}

// in returns the styles of s, with draft in place of s's own, unless draft is 0
// or s has none.
func (s HeaderStyle) in(draft HeaderStyle) HeaderStyle {
	if s == HeadersDefault {
		s = HeadersLegacy | HeadersDraft8
	}
	if s&drafts != 0 && draft != 0 {
		s = s&^drafts | draft
	}
	return s
}

// tighterThan reports whether r constrains the client more than the decision of
// another limiter. remaining is the field that the other limiter wrote, or "".
// If both have the same number left, r is tighter: only the last decision can
// be a denial.
func (r *Result) tighterThan(remaining string) bool {
	if remaining == "" {
		return true
	}
	before, err := strconv.ParseInt(remaining, 10, 64)
	return err != nil || !r.Allowed || r.Remaining <= before
}

// appendDraft8 appends a value such as "burst";r=7;t=1, "daily";r=900;t=3600
func (r *Result) appendDraft8(b []byte) []byte {
	for i := range r.set.Rates {
		if i > 0 {
			b = append(b, ", "...)
		}
		remaining, effective := r.window(i)
		b = append(b, r.set.texts.members[i]...)
		b = append(b, ";r="...)
		b = strconv.AppendInt(b, remaining, 10)
		if effective != Never {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, seconds(effective), 10)
		}
	}
	return b
}

// window returns what the RateLimit field says of the i-th limit: how many
// tokens the client can use, and for how long that holds. If the client can use
// none, effective is how long to wait, or Never. Of a limit that the request can
// never pass, others can use what is left.
func (r *Result) window(i int) (remaining int64, effective time.Duration) {
	if !r.Allowed && r.costOf(i) <= r.set.limits[i].Capacity {
		if retry := r.retryAfterOf(i); retry > 0 {
			return 0, retry
		}
	}
	p := r.set.LimitSet
	remaining = r.answer.Remaining(p, i)
	switch {
	case remaining == 0:
		return 0, delay(r.answer.RetryAfter(p, i, 1))
	case r.set.limits[i].Mode == Concurrent: // nobody knows when others are released
		return remaining, Never
	case r.set.limits[i].Mode == Continuous:
		return remaining, duration(r.answer.EarnedIn(p, i)) // T/ρ
	default:
		return remaining, duration(r.answer.NextStep(p, i))
	}
}

// seconds rounds d up, to at least 1: who came back earlier would be denied.
func seconds(d time.Duration) int64 {
	return max(1, int64((d-1)/time.Second)+1)
}

// ceilSeconds converts µs to seconds, rounded up.
func ceilSeconds(micros int64) int64 { return (micros + 999_999) / 1_000_000 }

// headerTexts are what is the same in the header of every response of a policy.
type headerTexts struct {
	policy     string   // value of RateLimit-Policy under HeadersDraft8
	draft6     string   // value of RateLimit-Policy under HeadersDraft6
	members    []string // the limits' names, quoted as in the RateLimit field
	capacities []string // the limits' capacities in digits
}

// newHeaderTexts returns the texts of limits, each of which has a name.
func newHeaderTexts(limits []Limit) *headerTexts {
	t := &headerTexts{}
	var policy, draft6 []byte // "burst";q=20;w=2 and, for draft 6, 20;w=2
	for i, l := range limits {
		if i > 0 {
			policy, draft6 = append(policy, ", "...), append(draft6, ", "...)
		}
		member, capacity := string(printable.AppendString(nil, l.Name)), strconv.FormatInt(l.Capacity, 10)
		t.members, t.capacities = append(t.members, member), append(t.capacities, capacity)
		unit, window := "", ""
		if l.otherUnit() {
			unit = l.Unit
		}
		if l.Mode != Concurrent {
			window = ";w=" + strconv.FormatInt(l.spec().Window(), 10)
		} else if unit == "" {
			unit = "concurrent-requests"
		}
		policy = append(policy, member+";q="+capacity+window...)
		if unit != "" {
			policy = printable.AppendString(append(policy, ";qu="...), unit)
		}
		draft6 = append(draft6, capacity+window...)
	}
	t.policy, t.draft6 = string(policy), string(draft6)
	return t
}

// ProblemDetails is the JSON body of an error response (RFC 9457). Its media
// type is application/problem+json. It holds nothing that a client must not
// see.
type ProblemDetails struct {
	Type             string   `json:"type"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

const (
	quotaExceeded      = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	quotaExceededTitle = "Request cannot be satisfied as assigned quota has been exceeded"

	abnormalUsage      = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
	abnormalUsageTitle = "Request not satisfied due to detection of abnormal request pattern"
)

// Problem describes a denied result: status 429 and the names of the limits
// that lack tokens. Its type is quota-exceeded of
// draft-ietf-httpapi-ratelimit-headers, section 5 of its versions 9 to 11, or
// abnormal-usage-detected while a limit with a Penalty is in debt.
func Problem(res Result) ProblemDetails {
	if res.Parts != nil {
		return res.problemOfParts()
	}
	p := ProblemDetails{Type: quotaExceeded, Title: quotaExceededTitle, Status: http.StatusTooManyRequests}
	for _, l := range res.Limits() {
		if l.Violated {
			p.ViolatedPolicies = append(p.ViolatedPolicies, l.Limit.Name)
			if l.Limit.Penalty > 0 && l.Debt > 0 {
				p.Type, p.Title = abnormalUsage, abnormalUsageTitle
			}
		}
	}
	return p
}
