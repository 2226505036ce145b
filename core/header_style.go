package core

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
