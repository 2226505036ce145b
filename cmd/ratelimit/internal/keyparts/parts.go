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
	text   string // as it was, or the hash of a long value
	client bool   // it says who sends requests, not what they ask for
	ip     bool   // it is an address or a network
}

// form is how extractors make a key of a kind.
type form struct {
	named  bool // a name stands between the kind and the value: header:x-api-key:k-123
	client bool // its value says who sends requests
}

// forms are the kinds of keys that extractors make.
var forms = map[string]form{
	"ip":     {client: true},
	"header": {client: true, named: true},
	"cookie": {client: true, named: true},
	"query":  {client: true, named: true},
	"param":  {client: true, named: true},
	"value":  {client: true, named: true},
	"path":   {},
	"route":  {},
	"method": {},
	"global": {},

	// Those of grpclimit, connectlimit and mcplimit.
	"service":    {},
	"tool":       {},
	"subject":    {client: true},
	"connection": {client: true},
	"session":    {client: true},
}

// Of takes a key apart, as an app makes it or as stores have it. A key that no
// extractor makes is read as [core.JoinKey] makes it: its kind and then values,
// or one value if it has no colon.
func Of(key string) *Parts {
	p := new(Parts)
	p.take(key)
	return p
}

func (p *Parts) take(key string) {
	p.keys = append(p.keys, key)
	if v, ok := extracted(key); ok {
		p.values = append(p.values, v)
		return
	}
	parts := strings.Split(key, ":")
	joins := len(parts) > 1 && strings.Contains(decode(parts[0]), ":")
	for _, part := range parts {
		_, ok := extracted(decode(part))
		joins = joins || ok
	}
	switch {
	case joins:
		for _, part := range parts {
			p.take(decode(part))
		}
		return
	case len(parts) > 1:
		parts = parts[1:]
	}
	for _, part := range parts {
		p.values = append(p.values, value{text: decode(part), client: true})
	}
}

// extracted returns the value of a key that an extractor makes.
func extracted(key string) (v value, ok bool) {
	kind, rest, _ := strings.Cut(key, ":")
	form, known := forms[kind]
	if !known || rest == "" {
		return v, false
	}
	if kind == "ip" { // it is not encoded
		_, ok := network(rest)
		return value{text: rest, client: true, ip: true}, ok
	}
	if form.named {
		if _, rest, ok = strings.Cut(rest, ":"); !ok {
			return v, false
		}
	}
	return value{text: decode(rest), client: form.client}, !strings.Contains(rest, ":")
}

// decode returns a part of a joined key as it was.
func decode(part string) string { return decoded.Replace(part) }

var decoded = strings.NewReplacer("%3A", ":", "%25", "%")

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
// one of its values, as a whole. An address is also in a key of its network.
func (p *Parts) Has(text string) bool {
	return slices.Contains(p.keys, text) || p.keys[0] == store.Key(text) ||
		slices.ContainsFunc(p.values, func(v value) bool { return v.is(text) })
}

func (v value) is(text string) bool {
	if v.text == text || v.text == core.JoinKey(text) { // which hashes a long value
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
