// Package keyparts takes keys apart, into the values that they name, so that
// tools find the keys of a client, and those that somebody may have meant.
package keyparts

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/spelling"
)

// Parts are what a key is made of.
type Parts struct {
	keys   []string // the key itself, and those that it joins
	values []value
}

// value is what a key says of a client, such as an address, or of a request,
// such as a path.
type value struct {
	text   string   // as it was, or the hash of a long value
	parts  []string // of a text with colons, which can be several parts of core.JoinKey
	client bool     // it says who sends requests, not what they ask for
	ip     bool     // it is an address or a network
}

// Kinds of keys that extractors make, by what stands behind the first colon.
// Any other kind is that of a function of the app, or the name of a header field.
var (
	named     = []string{"header", "cookie", "query", "param", "value"}          // a name, and then the value
	ofRequest = []string{"path", "route", "method", "global", "service", "tool"} // a value that does not say who sends requests
)

// Of takes a key apart, as an app makes it or as stores have it. The keys that
// it joins have '|' between them: see [middleware.Join].
func Of(key string) *Parts {
	p := new(Parts)
	p.take(key)
	return p
}

func (p *Parts) take(key string) {
	p.keys = append(p.keys, key)
	if !strings.Contains(key, "|") {
		p.values = append(p.values, valueOf(key))
		return
	}
	for part := range strings.SplitSeq(key, "|") {
		if encoded, ok := strings.CutPrefix(part, "%="); ok {
			part = decode(encoded)
		}
		p.take(part)
	}
}

// valueOf returns the value of a key that joins no others.
func valueOf(key string) value {
	kind, rest, ok := strings.Cut(key, ":")
	if !ok {
		return value{text: decode(key), client: true}
	}
	if slices.Contains(named, kind) {
		if _, value, ok := strings.Cut(rest, ":"); ok {
			rest = value
		}
	}
	v := value{text: decode(rest), client: !slices.Contains(ofRequest, kind)}
	if _, v.ip = network(rest); kind != "ip" || !v.ip {
		v.ip = false
		for part := range strings.SplitSeq(rest, ":") {
			v.parts = append(v.parts, decode(part))
		}
	}
	return v
}

// decode returns a part of a key as it was.
func decode(part string) string { return decoded.Replace(part) }

var decoded = strings.NewReplacer("%3A", ":", "%25", "%", "%7C", "|")

// network returns the network that a text is, or of which it is the only
// address.
func network(text string) (n netip.Prefix, ok bool) {
	if n, err := netip.ParsePrefix(text); err == nil {
		return n.Masked(), true
	}
	addr, err := netip.ParseAddr(text)
	addr = addr.Unmap().WithZone("")
	return netip.PrefixFrom(addr, addr.BitLen()), err == nil
}

// Has reports whether the key is text, joins a key that text is, or has text as
// one of its values, as a whole, or between two colons of it. An address is also
// in a key of its network.
func (p *Parts) Has(text string) bool {
	return slices.Contains(p.keys, text) || slices.Contains(p.keys, store.Key(text)) ||
		slices.ContainsFunc(p.values, func(v value) bool { return v.is(text) })
}

func (v value) is(text string) bool {
	if v.text == text || slices.Contains(v.parts, text) {
		return true
	}
	if hash := core.JoinKey(text); len(text) > store.MaxKey && (v.text == hash || slices.Contains(v.parts, hash)) {
		return true
	}
	if !v.ip {
		return false
	}
	given, ok := network(text)
	net, _ := network(v.text)
	return ok && net.Contains(given.Addr()) && given.Bits() >= net.Bits()
}

// telling are the values that tell keys apart: those that say who sends
// requests, or all if none does.
func (p *Parts) telling() []value {
	list := slices.DeleteFunc(slices.Clone(p.values), func(v value) bool { return !v.client })
	if len(list) == 0 {
		return p.values
	}
	return list
}

// SameClient reports whether one of two keys has all values that tell the other
// apart, such as a header's value alone and joined with a route.
func (p *Parts) SameClient(other *Parts) bool { return p.within(other) || other.within(p) }

func (p *Parts) within(other *Parts) bool {
	list := p.telling()
	for _, v := range list {
		if !slices.ContainsFunc(other.telling(), func(o value) bool { return o.is(v.text) }) {
			return false
		}
	}
	return len(list) > 0
}

// longest is the longest value that people misspell.
const longest = 64

// Distance returns how many mistakes in typing make p of other, in the values
// that tell keys apart. It reports false if a value has more mistakes than a
// third of its letters, or is another address: the address next to one is
// somebody else's.
func (p *Parts) Distance(other *Parts) (mistakes int, near bool) {
	for _, v := range p.telling() {
		most := max(1, len(v.text)/3)
		least := most + 1
		for _, o := range other.telling() {
			switch {
			case v.is(o.text) || o.is(v.text):
				least = 0
			case !v.ip && !o.ip && len(v.text) <= longest && len(o.text) <= longest:
				least = min(least, spelling.Distance(v.text, o.text))
			}
		}
		if least > most || least >= len(v.text) {
			return 0, false
		}
		mistakes, near = mistakes+least, true
	}
	return mistakes, near
}
