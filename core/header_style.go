package core

import (
	"math/bits"

	"github.com/tokenbucket-go/ratelimit/core/internal/enum"
)

// HeaderStyle is a set of header fields. Styles can be combined: HeadersLegacy | HeadersDraft8. Allowed and denied
// responses carry the same fields. A denied response also has Retry-After (RFC 9110, 10.2.3) and Cache-Control:
// no-store.
//
// Below, T is the number of tokens that a limit has left, B its capacity, and ρ its refill per second.
type HeaderStyle uint8

const (
	// HeadersDefault is HeadersLegacy and HeadersDraft8 together.
	HeadersDefault HeaderStyle = 0
	// HeadersLegacy sends the fields that most APIs send, for the tightest limit: X-RateLimit-Limit (B),
	// X-RateLimit-Remaining (T rounded down) and X-RateLimit-Reset (the Unix second at which the bucket is full).
	HeadersLegacy HeaderStyle = 1 << (iota - 1)
	// HeadersDraft8 sends the fields of draft-ietf-httpapi-ratelimit-headers 8 to 11, with one member for each limit. A
	// later draft, or the RFC, gets a style of its own: the fields of this one stay. They are RateLimit-Policy (q=B, w=B/ρ
	// seconds, qu=the Unit, if it is not requests) and RateLimit (r=T rounded down, t=seconds). t is the time in which the
	// tokens left refill, or, in the Stepped and Aligned modes, the time until the next refill. If the limit has no
	// token left or denies, r is 0 and t is the time until it has enough.
	HeadersDraft8
	// HeadersDraft6 sends the fields of the draft's version 6, which some gateways still read: RateLimit-Limit,
	// RateLimit-Remaining and RateLimit-Reset (seconds until full) for the tightest limit, and RateLimit-Policy. It
	// can't be combined with HeadersDraft8, because their RateLimit-Policy differs.
	HeadersDraft6
	// HeadersNone sends only Retry-After and Cache-Control, and only with denied responses.
	HeadersNone
)

// styles are the names of the bits of styles.
var styles = enum.Names{Type: "HeaderStyle", Prefix: "Headers", Of: []string{"Legacy", "Draft8", "Draft6", "None"}}

// noneBit is the bit of HeadersNone. Those below it can be combined.
var noneBit = bits.TrailingZeros8(uint8(HeadersNone))

// apart are styles of which one can be sent: they write RateLimit-Policy differently.
const apart = HeadersDraft8 | HeadersDraft6

// valid reports whether the styles of s can be combined.
func (s HeaderStyle) valid() bool {
	return s < 1<<len(styles.Of) && (s&HeadersNone == 0 || s == HeadersNone) && s&apart != apart
}

// String returns the names of the styles in Go, without the package.
func (s HeaderStyle) String() string {
	if s == HeadersDefault {
		return "HeadersDefault"
	}
	return styles.Bits(int(s))
}
