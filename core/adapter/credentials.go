package adapter

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Encoded is a Request whose Header returns binary fields as they were sent: in base64. Their names end in "-bin". ByHeader decodes
// them, so their keys are those of a protocol whose handlers read them decoded.
type Encoded interface {
	BinaryIsEncoded()
}

// decodeBinary decodes the values of a binary field as gRPC does: with padding or without, each may be a list with commas. It ignores
// the bits of the last character that carry no data.
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

// normalizeCredentials gives a scheme and its credentials one spelling (RFC 9110, sections 11.1 and 11.4). Spaces
// between them are those of strings.Fields, because apps split the value with it. A value without a space is an API
// key without a scheme: its case may matter.
//
// The credentials of Basic are those that they decode to (RFC 7617), encoded again. Credentials that can't be decoded are an error.
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

// decodeBasic decodes what any of the frameworks decodes: fiber takes base64 without padding too. All of them ignore the bits of the last
// character that carry no data.
func decodeBasic(v string) (text string, ok bool) {
	b, err := base64.StdEncoding.DecodeString(v)
	if err != nil {
		b, err = base64.RawStdEncoding.DecodeString(v)
	}
	return string(b), err == nil
}

// normalizeToken gives a JSON Web Token one spelling, and returns any other value as it is. Parsers such as golang-jwt ignore the bits
// of a segment's last character that carry no data and line breaks, which a query may have, and may take padding. A token has three segments of base64url, or five if it is
// encrypted, and the first is a JSON object (RFC 7515, section 7.1, and RFC 7516, section 7.1). So an API key with dots stays as it is.
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
