package adapter

import (
	"cmp"
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/fieldname"
)

// KeyFunc reads who is limited from an exchange. A missing value is [core.ErrNoKey].
//
// Every extractor here puts its kind, and where there is one the name of the field, into the key: an
// API key "192.0.2.1" and the address 192.0.2.1 never share a bucket. A value is what the framework gives its
// handlers, so that an app and its limiter never take one request for two clients. Values of any length are
// safe: see [core.JoinKey].
//
// A mistake in an extractor's arguments makes New panic: see Mistake.
type KeyFunc func(Exchange) (string, error)

// ByIP limits by the client's address; see [core.ClientIP] for whose word is taken for it.
func ByIP(options ...core.IPOption) KeyFunc {
	ip, err := core.NewClientIP(options...)
	if err != nil {
		return broken[Exchange, string](err)
	}
	return func(x Exchange) (string, error) {
		var room [64]byte
		key, err := ip.AppendKey(append(room[:0], "ip:"...), x.RemoteAddr(), x.Header)
		if err != nil {
			return "", err
		}
		return string(key), nil // colons and all: nothing follows it
	}
}

// ByCookie limits by the value of a cookie, as handlers read it: of several of one name the first.
func ByCookie(name string) KeyFunc {
	if !fieldname.Valid(name) {
		return bad("ByCookie", name, `must be the name of a cookie: letters, digits, "-" and "_", such as "session"`)
	}
	return named("cookie", name, func(x Exchange) (string, error) { return x.Cookie(name), nil })
}

// ByQuery limits by the first value of a query parameter.
func ByQuery(name string) KeyFunc {
	if name == "" {
		return bad("ByQuery", name, `must be the name of a query parameter, such as "q"`)
	}
	return named("query", name, func(x Exchange) (string, error) { return x.Query(name), nil })
}

// ByParam limits by a parameter of the route, such as id in /items/{id}, percent-decoded.
func ByParam(name string) KeyFunc {
	if name == "" {
		return bad("ByParam", name, `must be the name of a parameter of the route, such as "id"`)
	}
	return named("param", name, func(x Exchange) (string, error) { return x.Param(name), nil })
}

// ByPath limits by the path as requested, percent-decoded. Clients choose it, so alone it gives every path they make
// up a full bucket: join it with who they are, or use ByRoute.
func ByPath() KeyFunc {
	return func(x Exchange) (string, error) {
		return core.JoinKey("path", cmp.Or(x.Path(), "/")), nil // a URL without a path is that of the root
	}
}

// Global limits all requests together, under the given name.
func Global(name string) KeyFunc {
	if name == "" {
		return bad("Global", name, `must be a name for the bucket, such as "all"`)
	}
	key := core.JoinKey("global", name)
	return func(Exchange) (string, error) { return key, nil }
}

// named is an extractor of one field; a field that is empty is missing.
func named(kind, name string, value func(Exchange) (string, error)) KeyFunc {
	return func(x Exchange) (string, error) {
		v, err := value(x)
		switch {
		case err != nil:
			return "", err
		case v == "":
			return "", fmt.Errorf("%w: no %s %q", core.ErrNoKey, kind, name)
		}
		return core.JoinKey(kind, name, v), nil
	}
}
