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

// ByHeader limits by a request header field of one value, such as an API key. A field that came several times, or
// under several spellings, with different values is [core.ErrBadKey]: the limiter and the app could take it for
// two.
//
// Spellings that mean the same are one key. Host is read as the others, though Go keeps it apart from the header,
// and in lower case: hosts have no other (RFC 9110, section 4.2.3). Of Authorization and Proxy-Authorization so is
// the scheme (section 11.1), and the spaces behind it are one.
func ByHeader(name string) KeyFunc {
	if !fieldname.Valid(name) {
		return bad("ByHeader", name, `must be the name of a header field: letters, digits and "-", such as "X-User"`)
	}
	name = textproto.CanonicalMIMEHeaderKey(name)
	normal := func(v string) string { return v }
	switch name {
	case "Host":
		normal = strings.ToLower
	case "Authorization", "Proxy-Authorization":
		normal = credentials
	}
	return named("header", strings.ToLower(name), func(x Exchange) (string, error) {
		values := x.Header(name)
		if len(values) == 0 {
			return "", nil
		}
		for _, v := range values[1:] {
			if v != values[0] {
				return "", fmt.Errorf("%w: header %q has several values", core.ErrBadKey, name)
			}
		}
		return normal(values[0]), nil
	})
}

// credentials spells scheme and credentials in one way (RFC 9110, sections 11.1 and 11.4). Between them counts as
// space what strings.Fields takes for it, with which apps part them. What has none is an API key without a scheme,
// in which case may matter.
func credentials(v string) string {
	i := strings.IndexFunc(v, unicode.IsSpace)
	if i < 0 {
		return v
	}
	return strings.ToLower(v[:i]) + " " + strings.TrimSpace(v[i:])
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
