package adapter

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// ByRoute limits by the pattern of the route that matched, without its method. All requests whose route is not known
// share one key: those that match no route, and those that the framework has not routed yet. If such a request is
// answered with a status below 400, it has a route after all, and the middleware logs a warning once. The warning
// ends with advice, which says what to write instead in the framework.
func ByRoute(advice string) KeyFunc {
	return func(x Request) (string, error) {
		pattern, known := x.Route()
		if !known {
			x.SetDecision(middleware.Marker(advice, nil, x.Decision()))
		}
		return core.JoinKey("route", pattern), nil
	}
}

// WithoutMethod removes the method from a pattern of [http.ServeMux], [METHOD ][HOST]/[PATH]: methods are limited by ByMethod.
func WithoutMethod(pattern string) string {
	if method, rest, ok := strings.Cut(pattern, " "); ok && !strings.Contains(method, "/") {
		return strings.TrimLeft(rest, " \t")
	}
	return pattern
}

// DecodeParam percent-decodes a parameter of r's route. It is for routers on net/http that match URL.RawPath if it is
// set, and the decoded path if it is not.
func DecodeParam(r *http.Request, value string) string {
	if r.URL.RawPath == "" {
		return value
	}
	if decoded, err := url.PathUnescape(value); err == nil {
		return decoded
	}
	return value
}
