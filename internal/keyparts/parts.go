// Package keyparts takes keys apart, into the values that they name, and says
// which keys a customer's name means.
package keyparts

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Parts are what a stored key is made of.
type Parts struct {
	Values []Value

	// Kind is the first part of an app's own key, as core.JoinKey makes it. It
	// says what the key names, and is no value.
	Kind string

	// Doubtful reports that the key can be read in two ways: its first part is
	// a value, as here, or the kind of an app's own key.
	Doubtful bool

	// Hashed reports that the key joins a key of more than 128 bytes, whose
	// values nobody can see.
	Hashed bool

	keys []joined
}

// Value is what a key says of a client, such as an address, or of a request,
// such as a path.
type Value struct {
	Of     string // what it is the value of, such as "header x-api-key"; "": an app's own key without a kind
	Text   string // as it was, or the hash of a long value
	Client bool   // it says who sends requests, not what they ask for

	encoded string // as core.JoinKey writes it
}

// joined is a key that another one joins, or a whole key.
type joined struct {
	encoded  string // as core.JoinKey writes it
	from, to int    // where its values are
}

// form is how extractors make a key of a kind.
type form struct {
	named  bool // a name stands between the kind and the value: header:x-api-key:k-123
	client bool // its value says who sends requests
}

// scheme has the kinds of keys that extractors make.
var scheme = map[string]form{
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

// hashedPart begins the hash of a long part: see [core.JoinKey].
const hashedPart = "%sha256="

// Of takes a stored key apart. A key of an app is read as core.JoinKey makes
// it, its kind and then values, or as one value if it has no colon.
func Of(key string) *Parts {
	var p Parts
	p.take(core.JoinKey(key))
	return &p
}

// Kind returns the kind of a key that an extractor makes, or "".
func Kind(key string) string {
	of, _ := made(key)
	kind, _, _ := strings.Cut(of, " ")
	return kind
}

// take adds what a key is made of that stands in another one as encoded.
func (p *Parts) take(encoded string) {
	key, at, from := decode(encoded), len(p.keys), len(p.Values)
	p.keys = append(p.keys, joined{})
	defer func() { p.keys[at] = joined{encode(encoded), from, len(p.Values)} }()
	if isHash(encoded) {
		p.Hashed = true
		return
	}
	if p.takeMade(key) {
		return
	}
	parts := strings.Split(key, ":")
	switch {
	case joins(parts):
		p.Doubtful = p.Doubtful || len(parts) == 1 || !isWhole(parts[0])
		for _, part := range parts {
			p.take(part)
		}
	case len(parts) == 1:
		p.add("", encoded, true)
	default:
		if at == 0 {
			p.Kind = decode(parts[0])
		}
		p.addAll(decode(parts[0]), parts[1:], true)
	}
}

// takeMade adds what a key is made of that an extractor makes. It reports
// whether it is one.
func (p *Parts) takeMade(key string) bool {
	of, values := made(key)
	if of == "" {
		return false
	}
	kind, _, _ := strings.Cut(of, " ")
	if !scheme[kind].named && slices.ContainsFunc(values, isMade) {
		p.Doubtful = true // it may join an app's own key, of a client with the kind's name
		p.add("", kind, true)
		for _, value := range values {
			p.take(value)
		}
	}
	p.addAll(of, values, scheme[kind].client)
	return true
}

// made returns what a key of an extractor has values of, and these as it has
// them. Of other keys it returns "".
func made(key string) (of string, values []string) {
	kind, rest, _ := strings.Cut(key, ":")
	form, known := scheme[kind]
	if !known || rest == "" {
		return "", nil
	}
	if kind == "ip" { // it is not encoded
		if _, ok := network(rest); !ok {
			return "", nil
		}
		return kind, []string{core.JoinKey(rest)}
	}
	values = strings.Split(rest, ":")
	name := decode(values[0])
	switch {
	case !form.named:
		if len(values) > 1 && kind != "session" {
			return "", nil
		}
		return kind, values
	case len(values) != 2 || isMade(values[0]) || (kind == "header" || kind == "cookie") && (&http.Cookie{Name: name}).Valid() != nil:
		return "", nil
	}
	return kind + " " + name, values[1:]
}

// isMade reports whether a part of a key is one that an extractor makes.
func isMade(part string) bool {
	of, _ := made(decode(part))
	return of != ""
}

// addAll adds values, each of its own thing.
func (p *Parts) addAll(of string, encoded []string, client bool) {
	for i, one := range encoded {
		if len(encoded) == 1 {
			p.add(of, one, client)
		} else {
			p.add(of+" "+strconv.Itoa(i+1), one, client)
		}
	}
}

func (p *Parts) add(of, encoded string, client bool) {
	p.Values = append(p.Values, Value{of, decode(encoded), client, encode(encoded)})
}

// joins reports whether parts are those of a key that joins others, and not of
// one that an app makes: the first is a whole key, or any is one of an
// extractor.
func joins(parts []string) bool {
	return len(parts) > 1 && isWhole(parts[0]) || slices.ContainsFunc(parts, isMade)
}

// isWhole reports whether a part is a key and not the kind of one.
func isWhole(part string) bool { return isHash(part) || strings.Contains(decode(part), ":") }

func isHash(encoded string) bool { return strings.HasPrefix(encoded, hashedPart) }

// decode returns a part of a joined key as it was. A part that core.JoinKey
// does not write stays as it is, such as a hash.
func decode(part string) string {
	if !strings.Contains(part, "%") {
		return part
	}
	if decoded := decodedPart.Replace(part); core.JoinKey(decoded) == part {
		return decoded
	}
	return part
}

// encode returns a part as core.JoinKey writes it.
func encode(part string) string {
	if isHash(part) || !strings.ContainsAny(part, ":%") && len(part) <= 128 {
		return part
	}
	return core.JoinKey(decode(part))
}

// decodedPart reverses core.JoinKey in a part.
var decodedPart = strings.NewReplacer("%3A", ":", "%25", "%")

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
