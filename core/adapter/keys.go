package adapter

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/textproto"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// ByCookie limits by the value of a cookie, as handlers read it. If several
// have the name, the first counts. A JSON Web Token is one key, as with
// ByHeader. Its keys are such as cookie:session:abc.
func ByCookie(name string) KeyFunc {
	if !field.ValidName(name) {
		return badKey("ByCookie", name, `must be the name of a cookie: letters, digits, "-" and "_", such as "session"`)
	}
	return named("cookie", name, func(x Request) (string, error) { return normalizeToken(x.Cookie(name)), nil })
}

// ByQuery limits by the first value of a query parameter. A JSON Web Token is
// one key, as with ByHeader. Its keys are such as query:q:red.
func ByQuery(name string) KeyFunc {
	if name == "" {
		return badKey("ByQuery", name, `must be the name of a query parameter, such as "q"`)
	}
	return named("query", name, func(x Request) (string, error) { return normalizeToken(x.Query(name)), nil })
}

// ByParam limits by a parameter of the route, such as id in /items/{id},
// percent-decoded. Its keys are such as param:id:7.
func ByParam(name string) KeyFunc {
	if name == "" {
		return badKey("ByParam", name, `must be the name of a parameter of the route, such as "id"`)
	}
	return named("param", name, func(x Request) (string, error) { return x.Param(name), nil })
}

// ByMethod limits by the request's method: one of RFC 9110, section 9.3, or
// PATCH. All other methods share one key, because clients can make them up. Its
// keys are such as method:GET, and method:other.
func ByMethod() KeyFunc {
	return func(x Request) (string, error) {
		switch method := x.Method(); method {
		case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete,
			http.MethodConnect, http.MethodOptions, http.MethodTrace, http.MethodPatch:
			return Key("method", method), nil
		}
		return Key("method", "other"), nil // no method of the list has this name
	}
}

// ByPath limits by the path as requested, percent-decoded. Clients choose the
// path, and every path that they make up gets a full bucket. Join it with a key
// of the client, or use ByRoute. Its keys are such as path:/items/7.
func ByPath() KeyFunc {
	return func(x Request) (string, error) {
		return Key("path", cmp.Or(x.Path(), "/")), nil // a URL without a path means the root
	}
}

// Global limits all requests together. name is the name of their bucket: its
// key is such as global:all.
func Global(name string) KeyFunc {
	if name == "" {
		return badKey("Global", name, `must be a name for the bucket, such as "all"`)
	}
	key := Key("global", name)
	return func(Request) (string, error) { return key, nil }
}

// named makes the extractor of one field. An empty field is missing.
func named(kind, name string, value func(Request) (string, error)) KeyFunc {
	prefix := namedPrefix(kind, name)
	return func(x Request) (string, error) {
		v, err := value(x)
		switch {
		case err != nil:
			return "", err
		case v == "":
			return "", fmt.Errorf("%w: no %s %q", core.ErrNoKey, kind, name)
		}
		return Key(prefix, v), nil
	}
}

// ByHeader limits by a request header field of one value, such as an API key.
// Its keys are the field's name in lower case and the value: x-api-key:ann, see
// [Key]. If the field came several times, or under several spellings, with
// different values, the error is [core.ErrBadKey]: the limiter and the app could
// read different values.
//
// Values that mean the same are one key. Write it in this form for Peek, Reset
// and policy files:
//
//   - Host, which works too although net/http stores it apart from the header,
//     is in lower case, because hosts are case-insensitive (RFC 9110, section
//     4.2.3): host:api.example.com.
//   - In Authorization and Proxy-Authorization the scheme is in lower case
//     (section 11.1), with one space after it: authorization:bearer t-123.
//   - Basic credentials are base64 of the bytes that they decode to, with
//     padding: authorization:basic YW5uOjE=. If they can't be decoded the error
//     is [core.ErrBadKey].
//   - A JSON Web Token, in any field, has segments of base64url without padding,
//     line breaks and unused bits. A token of more than 128 bytes becomes a hash,
//     as any long value.
//   - Of an [Encoded] request, fields whose names end in "-bin" are decoded.
//
// Behind a login, limit by the user that it found instead, such as with
// ByContextValue: a client may have many credentials.
func ByHeader(name string) KeyFunc {
	if !field.ValidName(name) {
		return badKey("ByHeader", name, `must be the name of a header field: letters, digits and "-", such as "X-User"`)
	}
	name = textproto.CanonicalMIMEHeaderKey(name)
	normalize := func(_, v string) (string, error) { return normalizeToken(v), nil }
	switch name {
	case "Host":
		normalize = func(_, v string) (string, error) { return strings.ToLower(v), nil }
	case "Authorization", "Proxy-Authorization":
		normalize = normalizeCredentials
	}
	binary := strings.HasSuffix(name, "-Bin")
	return named("header", strings.ToLower(name), func(x Request) (string, error) {
		values := x.Header(name)
		if _, encoded := x.(Encoded); encoded && binary {
			var err error
			if values, err = decodeBinary(name, values); err != nil {
				return "", err
			}
		}
		if len(values) == 0 {
			return "", nil
		}
		for _, v := range values[1:] {
			if v != values[0] {
				return "", fmt.Errorf("%w: header %q has several values", core.ErrBadKey, name)
			}
		}
		if binary {
			return values[0], nil
		}
		return normalize(name, values[0])
	})
}

// RequestHeader returns the values of a header field of r, for exchanges on
// net/http. It also returns Host, which net/http stores apart from the header.
//
// ByIP reads the fields of the first case in every request. These names are
// canonical, so they index the header: that takes 8 ns, and Header.Values 66
// ns.
func RequestHeader(r *http.Request, name string) []string {
	switch name {
	case "X-Forwarded-For", "X-Real-Ip", "True-Client-Ip", "Forwarded":
		return r.Header[name]
	case "Host":
		if r.Host != "" {
			return []string{r.Host}
		}
	}
	return r.Header.Values(name)
}

// Encoded is a Request whose Header returns binary fields as they were sent: in
// base64. Their names end in "-bin". ByHeader decodes them, so their keys are
// those of a protocol whose handlers read them decoded.
type Encoded interface {
	BinaryIsEncoded()
}

// decodeBinary decodes the values of a binary field as gRPC does: with padding
// or without, each may be a list with commas. It ignores the bits of the last
// character that carry no data.
func decodeBinary(name string, values []string) ([]string, error) {
	var decoded []string
	for _, list := range values {
		for v := range strings.SplitSeq(list, ",") {
			v = strings.TrimSpace(v)
			encoding := base64.StdEncoding
			if len(v)%4 != 0 {
				encoding = base64.RawStdEncoding
			}
			text, err := encoding.DecodeString(v)
			if err != nil {
				return nil, fmt.Errorf("%w: header %q is not base64", core.ErrBadKey, name)
			}
			decoded = append(decoded, string(text))
		}
	}
	return decoded, nil
}

// normalizeCredentials gives a scheme and its credentials one spelling (RFC
// 9110, sections 11.1 and 11.4). Spaces between them are those of
// strings.Fields, because apps split the value with it. A value without a space
// is an API key without a scheme: its case may matter.
//
// The credentials of Basic are those that they decode to (RFC 7617), encoded
// again. Credentials that can't be decoded are an error.
func normalizeCredentials(name, v string) (string, error) {
	v = strings.TrimSpace(v)
	const basic = "basic"
	if n := len(basic); len(v) > n && strings.EqualFold(v[:n], basic) { // echo takes any byte for the space
		if text, ok := decodeBasic(v[n+1:]); ok && strings.Contains(text, ":") {
			return basic + " " + base64.StdEncoding.EncodeToString([]byte(text)), nil
		}
	}
	i := strings.IndexFunc(v, unicode.IsSpace)
	if i < 0 {
		return normalizeToken(v), nil
	}
	scheme, credentials := strings.ToLower(v[:i]), strings.TrimSpace(v[i:])
	if scheme == basic {
		text, ok := decodeBasic(credentials)
		if !ok {
			return "", fmt.Errorf("%w: the Basic credentials of header %q are not base64", core.ErrBadKey, name)
		}
		return basic + " " + base64.StdEncoding.EncodeToString([]byte(text)), nil
	}
	return scheme + " " + normalizeToken(credentials), nil
}

// decodeBasic decodes what any of the frameworks decodes: fiber takes base64
// without padding too. All of them ignore the bits of the last character that
// carry no data.
func decodeBasic(v string) (text string, ok bool) {
	b, err := base64.StdEncoding.DecodeString(v)
	if err != nil {
		b, err = base64.RawStdEncoding.DecodeString(v)
	}
	return string(b), err == nil
}

// normalizeToken gives a JSON Web Token one spelling, and returns any other
// value as it is. Parsers such as golang-jwt ignore the bits of a segment's
// last character that carry no data and line breaks, which a query may have,
// and may take padding. A token has three segments of base64url, or five if it
// is encrypted, and the first is a JSON object (RFC 7515, section 7.1, and RFC
// 7516, section 7.1). So an API key with dots stays as it is.
func normalizeToken(v string) string {
	if dots := strings.Count(v, "."); dots != 2 && dots != 4 {
		return v
	}
	segments := strings.Split(v, ".")
	for i, segment := range segments {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(segment, "=\r\n"))
		if err != nil || i == 0 && !strings.HasPrefix(strings.TrimSpace(string(b)), "{") {
			return v
		}
		segments[i] = base64.RawURLEncoding.EncodeToString(b)
	}
	return strings.Join(segments, ".")
}

// ByContextValue limits by a value that earlier middleware, such as a login,
// left in the request's context. Its keys are such as value:user:7, of the key
// "user", and value:main.userKey {}:7, of a type of your own. The value depends
// on its type:
//
//   - a string, or a type of kind string: its characters;
//   - an integer, or a type of an integer kind: its number, in decimal;
//   - a float that is a whole number below 2^53, as encoding/json makes of the
//     numbers in a token's claims: the same;
//   - a pointer to one of these: what it points to;
//   - any other fmt.Stringer, such as a UUID or a netip.Addr: what String
//     returns, which must differ between users.
//
// The first four don't use String and Error, because these may be made for logs
// and hide who the user is. Nil and "" are missing keys. A value of any other
// type is an error, because it may print differently in every request.
func ByContextValue(key any) KeyFunc {
	if t := reflect.TypeOf(key); t == nil || !t.Comparable() {
		return badKey("ByContextValue", t, "can't be the key of a context value: use a string or a comparable type of your own")
	}
	name := contextKeyName(key)
	prefix := namedPrefix("value", name)
	return func(x Request) (string, error) {
		v, err := valueText(x.Value(key))
		switch {
		case err != nil:
			return "", fmt.Errorf("context value %q: %w", name, err)
		case v == "":
			return "", fmt.Errorf("%w: no context value %q", core.ErrNoKey, name)
		}
		return Key(prefix, v), nil
	}
}

// contextKeyName returns a name for the key of a context. It includes the key's
// type, because most keys are empty structs. It includes no address, so it is
// the same in every process.
func contextKeyName(key any) string {
	if s, ok := key.(string); ok {
		return s
	}
	_, prints := key.(fmt.Stringer)
	switch t := reflect.TypeOf(key); t.Kind() {
	case reflect.Pointer:
		if !prints && t.Elem().Kind() != reflect.Struct {
			return t.String()
		}
	case reflect.Chan, reflect.UnsafePointer:
		return t.String()
	}
	return fmt.Sprintf("%T %v", key, key)
}

// valueText returns what identifies the user in v, or "" if v is nil or empty.
func valueText(v any) (string, error) {
	r := reflect.ValueOf(v)
	if r.Kind() == reflect.Pointer {
		if r.IsNil() {
			return "", nil
		}
		if kind := r.Elem().Kind(); kind == reflect.String || r.Elem().CanInt() || r.Elem().CanUint() || r.Elem().CanFloat() {
			r = r.Elem()
		}
	}
	switch {
	case !r.IsValid():
		return "", nil
	case r.Kind() == reflect.String:
		return r.String(), nil
	case r.CanInt():
		return strconv.FormatInt(r.Int(), 10), nil
	case r.CanUint():
		return strconv.FormatUint(r.Uint(), 10), nil
	case r.CanFloat():
		return wholeText(r.Float(), r.Type().Bits())
	}
	if s, ok := v.(fmt.Stringer); ok {
		return s.String(), nil
	}
	return "", fmt.Errorf("a %T is not a string, a whole number or a fmt.Stringer: store one of these in the context", v)
}

// wholeText returns the digits of f, a float of the given size. Of larger
// numbers several are one float, so that two users would share a bucket.
func wholeText(f float64, bits int) (string, error) {
	most := float64(1 << 53)
	if bits == 32 {
		most = 1 << 24
	}
	if f != math.Trunc(f) || math.Abs(f) >= most { // also NaN
		return "", fmt.Errorf("the float %v does not identify anybody: store a string or an integer in the context", f)
	}
	return strconv.FormatInt(int64(f), 10), nil
}

// CostByContentLength returns a cost function: a request costs one token for
// every bytesPerToken bytes of its body, rounded up, and at least one. The size
// is that of its Content-Length. A body of unknown length (chunked) costs the
// whole Capacity, because it may have any size. If bytesPerToken is below 1,
// New panics.
func CostByContentLength(bytesPerToken int64) func(Request) (int64, error) {
	return costByContentLength("CostByContentLength", bytesPerToken, func() (int64, error) { return 0, core.ErrUnknownCost })
}

// CostByContentLengthOr is [CostByContentLength] with another cost for a body
// of unknown length: unknown tokens. If unknown is below 1, New panics.
func CostByContentLengthOr(bytesPerToken, unknown int64) func(Request) (int64, error) {
	const name = "CostByContentLengthOr"
	f := costByContentLength(name, bytesPerToken, func() (int64, error) { return unknown, nil })
	if unknown < 1 {
		wrong := &core.ConfigError{Field: name + " unknown", Value: unknown, Reason: "must be at least 1"}
		return middleware.Invalid[Request, int64](errors.Join(middleware.ArgumentError(f), wrong))
	}
	return f
}

// costByContentLength makes the cost function that name returns.
func costByContentLength(name string, bytesPerToken int64, unknown func() (int64, error)) func(Request) (int64, error) {
	if bytesPerToken < 1 {
		return middleware.BadArgument[Request, int64](name+" bytesPerToken", bytesPerToken, "must be at least 1")
	}
	return func(x Request) (int64, error) {
		length := x.ContentLength()
		if length < 0 {
			return unknown()
		}
		return max(1, (length-1)/bytesPerToken+1), nil
	}
}
