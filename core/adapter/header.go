package adapter

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
	"unicode"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/fieldname"
)

// ByHeader limits by a request header field of one value, such as an API key. If the field came several times, or
// under several spellings, with different values, the error is [core.ErrBadKey]: the limiter and the app could read
// different values.
//
// Values that mean the same are one key. Host works too, although net/http stores it apart from the header. It is
// lower-cased, because hosts are case-insensitive (RFC 9110, section 4.2.3). For Authorization and
// Proxy-Authorization the scheme is lower-cased (section 11.1), and the spaces after it become one.
func ByHeader(name string) KeyFunc {
	if !fieldname.Valid(name) {
		return badKey("ByHeader", name, `must be the name of a header field: letters, digits and "-", such as "X-User"`)
	}
	name = textproto.CanonicalMIMEHeaderKey(name)
	normalize := func(v string) string { return v }
	switch name {
	case "Host":
		normalize = strings.ToLower
	case "Authorization", "Proxy-Authorization":
		normalize = normalizeCredentials
	}
	return named("header", strings.ToLower(name), func(x Request) (string, error) {
		values := x.Header(name)
		if len(values) == 0 {
			return "", nil
		}
		for _, v := range values[1:] {
			if v != values[0] {
				return "", fmt.Errorf("%w: header %q has several values", core.ErrBadKey, name)
			}
		}
		return normalize(values[0]), nil
	})
}

// normalizeCredentials gives a scheme and its credentials one spelling (RFC 9110, sections 11.1 and 11.4). Spaces
// between them are those of strings.Fields, because apps split the value with it. A value without a space is an API
// key without a scheme: its case may matter.
func normalizeCredentials(v string) string {
	i := strings.IndexFunc(v, unicode.IsSpace)
	if i < 0 {
		return v
	}
	return strings.ToLower(v[:i]) + " " + strings.TrimSpace(v[i:])
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
