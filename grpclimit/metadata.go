package grpclimit

import (
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// ByMetadata limits by a field of the call's metadata, such as an API key. If
// the field came several times with different values, the answer is
// InvalidArgument. The keys are those of ByHeader for HTTP.
func ByMetadata(name string) KeyFunc {
	valid := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_.", c)
	}
	if name == "" || strings.ContainsFunc(name, func(c rune) bool { return !valid(c) }) {
		return middleware.BadArgument[*Call, string]("ByMetadata", name, `must be the name of a metadata field: letters, digits, "-", "_" and ".", such as "x-api-key"`)
	}
	return adapt(adapter.ByHeader(name))
}
