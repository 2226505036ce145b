package core

import (
	"net/http"
	"strconv"
	"time"
)

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

// seconds rounds up to whole seconds, at least 1: a client that comes back earlier is denied again.
func seconds(d time.Duration) int64 {
	return max(1, int64((d-1)/time.Second)+1)
}

// ceilSeconds is µs in seconds, rounded up.
func ceilSeconds(micros int64) int64 { return (micros + 999_999) / 1_000_000 }
