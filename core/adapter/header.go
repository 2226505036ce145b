package adapter

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
)

// ByHeader limits by a request header field of one value, such as an API key. If the field came several times, or
// under several spellings, with different values, the error is [core.ErrBadKey]: the limiter and the app could read
// different values.
//
// Values that mean the same are one key. Host works too, although net/http stores it apart from the header. It is
// lower-cased, because hosts are case-insensitive (RFC 9110, section 4.2.3). For Authorization and
// Proxy-Authorization the scheme is lower-cased (section 11.1), and the spaces after it become one. Base64 has several
// texts for the same bytes: Basic credentials are one key however they are encoded, and if they can't be decoded the
// error is [core.ErrBadKey]. So are JSON Web Tokens, in any field. Of an [Encoded] request, fields whose names end in
// "-bin" are decoded.
//
// Behind a login, limit by the user that it found instead, such as with ByContextValue: a client may have many credentials.
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

// RequestHeader returns the values of a header field of r, for exchanges on net/http. It also returns Host, which
// net/http stores apart from the header.
//
// ByIP reads the fields of the first case in every request. These names are canonical, so they index the header: that
// takes 8 ns, and Header.Values 66 ns.
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
