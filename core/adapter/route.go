package adapter

import (
	"log/slog"
	"net/http"
	"net/url"

	"github.com/tokenbucket-go/ratelimit/core"
)

// ByRoute limits by the pattern of the route that matched, without its method. All requests whose route is not known
// share one key: those that match no route, and those that the framework has not routed yet. If such a request is
// answered with a status below 400, it has a route after all, and the middleware logs a warning once. The warning
// ends with advice, which says what to write instead in the framework.
func ByRoute(advice string) KeyFunc {
	return func(x Request) (string, error) {
		pattern, known := x.Route()
		if !known {
			x.SetDecision(marker(advice, x.Decision()))
		}
		return core.JoinKey("route", pattern), nil
	}
}

// takeMarkers removes the markers that key functions left since the request's decision was before. What ByIP left is logged to
// log. takeMarkers returns the decision that is left, and the advice of ByRoute, or "" if there is none.
func takeMarkers(x Request, before *Decision, log func() *slog.Logger) (d *Decision, advice string) {
	d = x.Decision()
	if d == before || d == nil || !d.isMarker() {
		return d, ""
	}
	for ; d != before && d != nil && d.isMarker(); d = d.outer {
		if d.log != nil {
			d.log(log())
		} else {
			advice = d.key
		}
	}
	x.SetDecision(before)
	return before, advice
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
