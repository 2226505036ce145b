package replay

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/accesslog"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/keyof"
)

// part is one extractor of a key: the field of the log that it reads, and the
// key of a value.
type part struct {
	field string
	key   func(value string) (string, error)
}

// keySpec makes keys of lines.
type keySpec []part

// parseKeySpec reads what -key says: extractors joined by +, such as ip or
// header:x-tenant=tenant+path.
func parseKeySpec(text string, ipv6Prefix int) (spec keySpec, err error) {
	for one := range strings.SplitSeq(text, "+") {
		p, err := parsePart(strings.TrimSpace(one), ipv6Prefix)
		if err != nil {
			return nil, fmt.Errorf("-key %q: %w", one, err)
		}
		spec = append(spec, p)
	}
	return spec, nil
}

// Named make the keys of extractors with a name.
var Named = map[string]func(name, value string) (string, error){
	"header": keyof.Header, "cookie": keyof.Cookie, "query": keyof.Query, "param": keyof.Param, "value": keyof.Value,
}

func parsePart(text string, ipv6Prefix int) (part, error) {
	left, field, hasField := strings.Cut(text, "=")
	kind, name, hasName := strings.Cut(left, ":")
	or := func(other string) string {
		if hasField {
			return field
		}
		return other
	}
	var p part
	switch of := Named[kind]; {
	case text == "" || hasField && field == "":
		return part{}, errors.New("name a field, such as ip, path, or header:x-api-key=FIELD")
	case kind == "global" && hasName && !hasField:
		p = part{"", func(string) (string, error) { return keyof.Global(name) }}
	case of != nil && hasName && kind == "query":
		p = part{or("query:" + name), func(value string) (string, error) { return of(name, value) }}
	case of != nil && hasName:
		p = part{or(strings.ReplaceAll(name, "-", "_")), func(value string) (string, error) { return of(name, value) }}
	case hasName:
		return part{}, fmt.Errorf("%q is not known: it must be header, cookie, query, param, value or global", kind)
	case kind == "ip":
		p = part{or("ip"), func(value string) (string, error) {
			if peer, err := netip.ParseAddrPort(value); err == nil { // as servers have it that log the peer
				value = peer.Addr().String()
			}
			return keyof.IP(value, core.IPv6Prefix(ipv6Prefix))
		}}
	case kind == "method":
		p = part{or("method"), keyof.Method}
	case kind == "path":
		p = part{or("path"), keyof.Path}
	case kind == "route":
		p = part{or("route"), keyof.Route}
	default: // a field of the log, under its name
		p = part{or(kind), func(value string) (string, error) { return core.JoinKey(kind, value), nil }}
	}
	_, err := p.key("192.0.2.1") // finds mistakes in names
	return p, err
}

// ids numbers the keys of lines.
type ids struct {
	spec  keySpec
	known map[string]int32 // by the values of the fields
	byKey map[string]int32
	keys  []string
	raw   []byte
}

func newIDs(spec keySpec) *ids {
	return &ids{spec: spec, known: make(map[string]int32), byKey: make(map[string]int32)}
}

// of returns the number of a line's key. The error is core.ErrNoKey if the line
// has none.
func (k *ids) of(l *accesslog.Line) (int32, error) {
	k.raw = k.raw[:0]
	for _, p := range k.spec {
		value := []byte(nil)
		if p.field != "" {
			value = l.Value(p.field)
		}
		n := len(value)
		k.raw = append(k.raw, byte(n), byte(n>>8), byte(n>>16)) // lines have at most 2²⁰ bytes
		k.raw = append(k.raw, value...)
	}
	if id, ok := k.known[string(k.raw)]; ok {
		return id, nil
	}
	key, err := k.key()
	if err != nil {
		return 0, err
	}
	id, ok := k.byKey[key]
	if !ok {
		id = int32(len(k.keys))
		k.keys = append(k.keys, key)
		k.byKey[key] = id
	}
	k.known[string(k.raw)] = id
	return id, nil
}

// key makes the key of the values in raw.
func (k *ids) key() (string, error) {
	made := make([]string, 0, len(k.spec))
	raw := k.raw
	for _, p := range k.spec {
		n := int(raw[0]) | int(raw[1])<<8 | int(raw[2])<<16
		value := string(raw[3 : 3+n])
		raw = raw[3+n:]
		if value == "" && p.field != "" {
			return "", fmt.Errorf("%w: the line has no %s", core.ErrNoKey, p.field)
		}
		key, err := p.key(value)
		if err != nil {
			return "", fmt.Errorf("%w: %w", core.ErrNoKey, err)
		}
		made = append(made, key)
	}
	if len(made) == 1 {
		return made[0], nil
	}
	return keyof.Join(made...), nil
}
