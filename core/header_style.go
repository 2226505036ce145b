package core

// HeaderStyle is a set of header fields. Styles can be combined: HeadersLegacy | HeadersIETF. Allowed and denied
// responses carry the same fields. A denied response also has Retry-After (RFC 9110, 10.2.3) and Cache-Control:
// no-store.
//
// Below, T is the number of tokens that a limit has left, B its capacity, and ρ its refill per second.
type HeaderStyle uint8

const (
	// HeadersDefault is HeadersLegacy and HeadersIETF together.
	HeadersDefault HeaderStyle = 0
	// HeadersLegacy sends the fields that most APIs send, for the tightest limit: X-RateLimit-Limit (B),
	// X-RateLimit-Remaining (T rounded down) and X-RateLimit-Reset (the Unix second at which the bucket is full).
	HeadersLegacy HeaderStyle = 1 << (iota - 1)
	// HeadersDraft11 sends the fields of draft-ietf-httpapi-ratelimit-headers-11, with one member for each limit:
	// RateLimit-Policy (q=B, w=B/ρ seconds, qu=the Unit, if it is not requests) and RateLimit (r=T rounded down, t=seconds). t is the time in which the
	// tokens left refill, or, in the Stepped and Aligned modes, the time until the next refill. If the limit has no
	// token left or denies, r is 0 and t is the time until it has enough.
	HeadersDraft11
	// HeadersDraft6 sends the fields of the draft's version 6, which some gateways still read: RateLimit-Limit,
	// RateLimit-Remaining and RateLimit-Reset (seconds until full) for the tightest limit, and RateLimit-Policy. It
	// can't be combined with HeadersDraft11, because their RateLimit-Policy differs.
	HeadersDraft6
	// HeadersNone sends only Retry-After and Cache-Control, and only with denied responses.
	HeadersNone
)

// HeadersIETF is the newest IETF draft that this version knows, and will be the RFC: today HeadersDraft11. If an update
// of this module must not change the fields that clients see, name the draft instead.
const HeadersIETF = HeadersDraft11

func (s HeaderStyle) valid() bool {
	return s <= HeadersLegacy|HeadersDraft11 || s == HeadersDraft6 || s == HeadersDraft6|HeadersLegacy || s == HeadersNone
}

// headerTexts holds the parts of header fields that are the same in every response of a policy.
type headerTexts struct {
	policy     string   // value of RateLimit-Policy under HeadersIETF
	draft6     string   // value of RateLimit-Policy under HeadersDraft6
	members    []string // the limits' names, quoted as in the RateLimit field
	capacities []string // the limits' capacities in digits
}

func makeHeaderTexts(limits []Limit) (t headerTexts) {
	t.policy, t.draft6 = policyFields(limits)
	for _, l := range limits {
		t.members = append(t.members, string(appendString(nil, l.Name)))
		t.capacities = append(t.capacities, itoa(l.Capacity))
	}
	return t
}

// policyFields returns the values of RateLimit-Policy: "burst";q=20;w=2 and, for draft 6, 20;w=2
func policyFields(limits []Limit) (ietf, draft6 string) {
	var b, b6 []byte
	for i, l := range limits {
		if i > 0 {
			b, b6 = append(b, ", "...), append(b6, ", "...)
		}
		capacity, window := itoa(l.Capacity), itoa(l.spec().Window())
		b = append(appendString(b, l.Name), ";q="+capacity+";w="+window...)
		if l.otherUnit() {
			b = appendString(append(b, ";qu="...), l.Unit)
		}
		b6 = append(b6, capacity+";w="+window...)
	}
	return string(b), string(b6)
}

// appendString appends s as an RFC 9651 String (section 3.3.3). s must be printable ASCII, as names are.
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
