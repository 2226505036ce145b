package adapter

import (
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// Key returns the key of an extractor: its kind, ':' and a value, such as
// "path:/a:b". Keys are what people write for [core.Limiter.Peek] and in policy
// files, so as little as possible is encoded:
//
//   - The kind is one of the extractor's own, without ':', '%' and '|'. If the
//     extractor has a name, that follows: "cookie:session". A header field's
//     name stands alone and in lower case: "x-api-key". Only if it is also
//     another extractor's kind is it "header:ip".
//   - In a name ':', '%' and '|' are percent-encoded, in a value '%' and '|'. A
//     value of more than 128 bytes becomes "%sha256=" and its SHA-256.
//
// So the first ':', or the second if there is a name, begins the value. Different
// kinds, names and values make different keys, whatever bytes they hold. A key
// has no '|', which is what [middleware.Join] puts between keys.
func Key(kind, value string) string {
	n := printable.PartLen(value, "%|")
	if n == len(value) {
		return kind + ":" + value
	}
	var b strings.Builder
	b.Grow(len(kind) + 1 + n)
	b.WriteString(kind)
	b.WriteByte(':')
	printable.WritePart(&b, value, "%|")
	return b.String()
}

// kinds are those of all extractors, also of grpclimit, connectlimit and
// mcplimit. No header field has one of them as the kind of its key, so no
// client can send another extractor's key.
var kinds = []string{
	"cookie", "global", "header", "ip", "method", "param", "path", "query", "route", "value",
	"connection", "service", "session", "subject", "tool",
}

// namedPrefix returns the kind of a key that has a name, for [Key]. That of a
// header field must be in lower case.
func namedPrefix(kind, name string) string {
	var b strings.Builder
	if kind != "header" || slices.Contains(kinds, name) {
		b.WriteString(kind)
		b.WriteByte(':')
	}
	printable.Percent(&b, name, ":%|")
	return b.String()
}
