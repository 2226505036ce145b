package core

import (
	"net/http"
	"strconv"
	"time"
)

// HeaderStyle is a set of header fields. Styles may be added up: HeadersLegacy | HeadersIETF. All are
// sent with allowed and denied responses alike; a denied one also has Retry-After (RFC 9110, 10.2.3)
// and Cache-Control: no-store.
//
// T is the tokens a limit has left, B its capacity, ρ its refill per second, n the cost.
type HeaderStyle uint8

const (
	// HeadersDefault is HeadersLegacy and HeadersIETF together.
	HeadersDefault HeaderStyle = 0
	// HeadersLegacy is what most APIs send: X-RateLimit-Limit (B), X-RateLimit-Remaining (T rounded
	// down) and X-RateLimit-Reset (the Unix second at which the bucket is full), all of the
	// tightest limit.
	HeadersLegacy HeaderStyle = 1 << (iota - 1)
	// HeadersDraft11 is draft-ietf-httpapi-ratelimit-headers-11: RateLimit-Policy with a member for
	// each limit (q=B, w=B/ρ seconds) and RateLimit (r=T rounded down, t=seconds until the tokens
	// left are earned anew or, with none left, until there are enough).
	HeadersDraft11
	// HeadersDraft6 is the draft's sixth version, which some gateways still read: RateLimit-Limit,
	// RateLimit-Remaining, RateLimit-Reset (seconds until full) of the tightest limit, and
	// RateLimit-Policy. It can't be sent together with HeadersDraft11, whose RateLimit-Policy differs.
	HeadersDraft6
	// HeadersNone sends nothing but Retry-After and Cache-Control when denied.
	HeadersNone
)

// HeadersIETF is the newest draft of the IETF's that this version knows, and the RFC when there is one: today
// HeadersDraft11. Name the draft instead where clients must not see its fields change with an update of this module.
const HeadersIETF = HeadersDraft11

func (s HeaderStyle) valid() bool {
	return s <= HeadersLegacy|HeadersDraft11 || s == HeadersDraft6 || s == HeadersDraft6|HeadersLegacy || s == HeadersNone
}

// The header fields, spelled as net/http keeps them. Names are case-insensitive (RFC 9110, 5.1).
const (
	legacyLimit     = "X-Ratelimit-Limit"
	legacyRemaining = "X-Ratelimit-Remaining"
	legacyReset     = "X-Ratelimit-Reset"
	draft6Limit     = "Ratelimit-Limit"
	draft6Remaining = "Ratelimit-Remaining"
	draft6Reset     = "Ratelimit-Reset"
	policyField     = "Ratelimit-Policy"
	ietfField       = "Ratelimit"
)

// HeaderWriter is what response headers are written to: an [net/http.Header], or any framework's.
type HeaderWriter interface {
	Get(name string) string
	Set(name, value string)
	Add(name, value string)
}

// WriteHeaders writes the header fields of the policy's style to h. Where another limiter has
// written to h before, members are added to list fields, and of the single-valued fields those of
// the more constraining decision stay. Into an [net/http.Header] it costs two allocations.
func (r Result) WriteHeaders(h HeaderWriter) {
	if r.plan == nil {
		return
	}
	var room [192]byte
	b, f := room[:0], fields{to: h}
	f.header, _ = h.(http.Header)
	if !r.Allowed {
		if r.RetryAfter != Never {
			b = f.setInt(b, "Retry-After", seconds(r.RetryAfter))
		}
		f.set("Cache-Control", "no-store")
	}
	style := r.headers
	if style == HeadersDefault {
		style = HeadersLegacy | HeadersIETF
	}
	if style&HeadersDraft11 != 0 {
		f.addPolicy(r.plan.fields.policy)
		v := f.next(ietfField)
		v.list, v.from = true, len(b)
		b = r.appendIETF(b)
		v.to = len(b)
	}
	if style&HeadersDraft6 != 0 {
		f.addPolicy(r.plan.fields.draft6)
	}
	capacity := r.plan.fields.capacities[r.tightest]
	untilFull := r.answer.ResetAfter(r.plan.Plan, int(r.tightest))
	if style&HeadersLegacy != 0 && r.tighterThan(f.get(legacyRemaining)) {
		f.set(legacyLimit, capacity)
		b = f.setInt(b, legacyRemaining, r.Remaining)
		b = f.setInt(b, legacyReset, ceilSeconds(r.answer.Now+untilFull))
	}
	if style&HeadersDraft6 != 0 && r.tighterThan(f.get(draft6Remaining)) {
		f.set(draft6Limit, capacity)
		b = f.setInt(b, draft6Remaining, r.Remaining)
		b = f.setInt(b, draft6Reset, ceilSeconds(untilFull))
	}
	f.write(b)
}

// addPolicy adds to RateLimit-Policy, unless another limiter has written it in the other style: a list
// of both would be neither.
func (f *fields) addPolicy(value string) {
	if before := f.get(policyField); before == "" || (before[0] == '"') == (value[0] == '"') {
		f.add(policyField, value)
	}
}

// tighterThan reports whether r constrains the client more than the decision whose remaining tokens
// another limiter wrote before. Between equals the later stays: it is the one that denies, if any.
func (r *Result) tighterThan(remaining string) bool {
	if remaining == "" {
		return true
	}
	before, err := strconv.ParseInt(remaining, 10, 64)
	return err != nil || !r.Allowed || r.Remaining <= before
}

// appendIETF appends the value of the RateLimit field: "burst";r=7;t=1, "daily";r=900;t=3600
func (r *Result) appendIETF(b []byte) []byte {
	for i := range r.plan.Rates {
		if i > 0 {
			b = append(b, ", "...)
		}
		remaining, effective := r.window(i)
		b = append(b, r.plan.fields.members[i]...)
		b = append(b, ";r="...)
		b = strconv.AppendInt(b, remaining, 10)
		if effective != Never {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, seconds(effective), 10)
		}
	}
	return b
}

// window is what the i-th limit tells of the near future: how many tokens may be used, and for how
// long that holds.
func (r *Result) window(i int) (remaining int64, effective time.Duration) {
	if !r.Allowed {
		if retry := r.retryAfterOf(i); retry > 0 {
			return 0, retry
		}
	}
	p := r.plan.Plan
	remaining = r.answer.Remaining(p, i)
	switch {
	case remaining == 0:
		return 0, duration(r.answer.RetryAfter(p, i, 1))
	case r.plan.limits[i].Mode == Continuous:
		return remaining, duration(r.answer.EarnedIn(p, i)) // T/ρ
	default:
		return remaining, duration(r.answer.NextStep(p, i))
	}
}

// headerTexts are the parts of header fields that are the same in every response of a policy.
type headerTexts struct {
	policy     string   // the RateLimit-Policy field of HeadersIETF
	draft6     string   // and of HeadersDraft6
	members    []string // the limits' names as the RateLimit field has them
	capacities []string // and their capacities in digits
}

func makeHeaderTexts(limits []Limit) (t headerTexts) {
	t.policy, t.draft6 = policyFields(limits)
	for _, l := range limits {
		t.members = append(t.members, string(appendString(nil, l.Name)))
		t.capacities = append(t.capacities, itoa(l.Capacity))
	}
	return t
}

// policyFields are the values of RateLimit-Policy: "burst";q=20;w=2 and, for draft 6, 20;w=2
func policyFields(limits []Limit) (ietf, draft6 string) {
	var b, b6 []byte
	for i, l := range limits {
		if i > 0 {
			b, b6 = append(b, ", "...), append(b6, ", "...)
		}
		capacity, window := itoa(l.Capacity), itoa(l.spec().Window())
		b = append(appendString(b, l.Name), ";q="+capacity+";w="+window...)
		b6 = append(b6, capacity+";w="+window...)
	}
	return string(b), string(b6)
}

// appendString appends s as an RFC 9651 String (section 3.3.3). Names are printable ASCII.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// seconds rounds up to whole seconds, at least 1: a client that comes back earlier is denied again.
func seconds(d time.Duration) int64 {
	return max(1, int64((d-1)/time.Second)+1)
}

// ceilSeconds is µs in seconds, rounded up.
func ceilSeconds(micros int64) int64 { return (micros + 999_999) / 1_000_000 }
