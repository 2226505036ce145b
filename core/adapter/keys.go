package adapter

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/textproto"
	"reflect"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// KeyFunc reads who is limited from an exchange. A missing value is [core.ErrNoKey].
//
// Every extractor here puts its kind, and where there is one the name of the field, into the key: an
// API key "192.0.2.1" and the address 192.0.2.1 never share a bucket.
type KeyFunc func(Exchange) (string, error)

// call asks a key function. An empty key is a missing one: it would silently make strangers share a
// bucket.
func call[C any, K ~func(C) (string, error)](key K, c C) (string, error) {
	if key == nil {
		return "", errors.New("ratelimit: the key function is nil")
	}
	k, err := key(c)
	if err == nil && k == "" {
		err = fmt.Errorf("%w: the key function returned an empty key", core.ErrNoKey)
	}
	return k, err
}

// ByIP limits by the client's address; see [core.ClientIP] for whose word is taken for it.
func ByIP(options ...core.IPOption) KeyFunc {
	ip := core.NewClientIP(options...)
	return func(x Exchange) (string, error) {
		var room [64]byte
		key, err := ip.AppendKey(append(room[:0], "ip:"...), x.RemoteAddr(), x.Header)
		if err != nil {
			return "", err
		}
		return string(key), nil // colons and all: nothing follows it
	}
}

// ByHeader limits by the first value of a request header field, such as an API key.
//
// Host is read as the others, though Go keeps it apart from the header, but in lower case: hosts have no other
// (RFC 9110, section 4.2.3).
func ByHeader(name string) KeyFunc {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return named("header", strings.ToLower(name), func(x Exchange) string {
		values := x.Header(name)
		switch {
		case len(values) == 0:
			return ""
		case name == "Host":
			return strings.ToLower(values[0])
		}
		return values[0]
	})
}

// ByCookie limits by the value of a cookie.
func ByCookie(name string) KeyFunc {
	return named("cookie", name, func(x Exchange) string { return x.Cookie(name) })
}

// ByQuery limits by the first value of a query parameter.
func ByQuery(name string) KeyFunc {
	return named("query", name, func(x Exchange) string { return x.Query(name) })
}

// ByParam limits by a parameter of the route, such as id in /items/{id}.
func ByParam(name string) KeyFunc {
	return named("param", name, func(x Exchange) string { return x.Param(name) })
}

// ByContextValue limits by a value that earlier middleware, such as a login, left in the request's
// context: a string, an integer, a fmt.Stringer. Nil and what prints as "" are missing; a value of
// another type is an error, because it may print differently in every request.
func ByContextValue(key any) KeyFunc {
	name := fmt.Sprint(key)
	if t := reflect.TypeOf(key); t == nil || !t.Comparable() {
		return broken(fmt.Errorf("ratelimit: ByContextValue: a %T can't be a key of a context", key))
	}
	return func(x Exchange) (string, error) {
		v, err := text(x.Value(key))
		switch {
		case err != nil:
			return "", fmt.Errorf("context value %q: %w", name, err)
		case v == "":
			return "", fmt.Errorf("%w: no context value %q", core.ErrNoKey, name)
		}
		return core.JoinKey("value", name, v), nil
	}
}

// text prints a value that names someone.
func text(v any) (string, error) {
	switch r := reflect.ValueOf(v); {
	case !r.IsValid(), r.Kind() == reflect.Pointer && r.IsNil():
		return "", nil
	case r.Kind() == reflect.String, r.CanInt(), r.CanUint():
		return fmt.Sprint(v), nil
	}
	if s, ok := v.(fmt.Stringer); ok {
		return s.String(), nil
	}
	return "", fmt.Errorf("a %T is not a string, an integer or a fmt.Stringer", v)
}

// ByMethod limits by the request's method.
func ByMethod() KeyFunc {
	return func(x Exchange) (string, error) { return core.JoinKey("method", x.Method()), nil }
}

// ByPath limits by the path as requested, percent-decoded. Clients choose it, so alone it gives every path they make
// up a full bucket: join it with who they are, or use ByRoute.
func ByPath() KeyFunc {
	return func(x Exchange) (string, error) {
		return core.JoinKey("path", cmp.Or(x.Path(), "/")), nil // a URL without a path is that of the root
	}
}

// ByRoute limits by the pattern of the route that matched, without its method. Requests that match no
// route share one key.
func ByRoute() KeyFunc {
	return func(x Exchange) (string, error) { return core.JoinKey("route", x.Route()), nil }
}

// Global limits all requests together, under the given name.
func Global(name string) KeyFunc {
	key := core.JoinKey("global", name)
	return func(Exchange) (string, error) { return key, nil }
}

// broken is what a mistake in an extractor's arguments makes: it is logged at once, and no request is
// limited by what was not meant.
func broken(err error) KeyFunc {
	slog.Error("ratelimit: bad key function, every request will be refused", "error", err)
	return func(Exchange) (string, error) { return "", err }
}

// named is an extractor of one field; a field that is empty is missing.
func named(kind, name string, value func(Exchange) string) KeyFunc {
	if name == "" {
		return broken(fmt.Errorf("ratelimit: key by %s: the name is empty", kind))
	}
	return func(x Exchange) (string, error) {
		v := value(x)
		if v == "" {
			return "", fmt.Errorf("%w: no %s %q", core.ErrNoKey, kind, name)
		}
		return core.JoinKey(kind, name, v), nil
	}
}

// Join limits by several keys together, such as route and user. It is injective, whatever bytes the
// keys hold: ("a:b", "c") and ("a", "b:c") differ. One missing key is missing from the whole.
func Join[C any, K ~func(C) (string, error)](keys ...K) K {
	return func(c C) (string, error) {
		if len(keys) == 0 {
			return "", errors.New("ratelimit: Join of no keys")
		}
		parts := make([]string, len(keys))
		for i, key := range keys {
			part, err := call(key, c)
			if err != nil {
				return "", err
			}
			parts[i] = part
		}
		return core.JoinKey(parts...), nil
	}
}

// FirstOf limits by the first key that is not missing, such as an API key or else the address. An
// error other than [core.ErrNoKey] ends the search.
func FirstOf[C any, K ~func(C) (string, error)](keys ...K) K {
	return func(c C) (string, error) {
		err := errors.New("ratelimit: FirstOf no keys")
		for _, key := range keys {
			var k string
			if k, err = call(key, c); err == nil || !errors.Is(err, core.ErrNoKey) {
				return k, err
			}
		}
		return "", err
	}
}

// forwardedFor is asked for in every request that ByIP limits; net/http keeps it under this very name.
const forwardedFor = "X-Forwarded-For"

// RequestHeader returns the values of a header field of r, for exchanges on net/http: Host too, which
// net/http keeps apart.
func RequestHeader(r *http.Request, name string) []string {
	switch {
	case name == forwardedFor:
		return r.Header[forwardedFor]
	case name == "Host" && r.Host != "":
		return []string{r.Host}
	}
	return r.Header.Values(name)
}
