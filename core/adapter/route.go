package adapter

import (
	"log/slog"
	"net/http"
	"net/url"

	"github.com/tokenbucket-go/ratelimit/core"
)

// ByRoute limits by the pattern of the route that matched, without its method. Requests that match no
// route, or whose route is not known yet where the middleware stands, share one key. When such a request is
// answered below 400, as if it had a route, its middleware warns once; advice ends that warning and says what to
// write instead in the framework.
func ByRoute(advice string) KeyFunc {
	return func(x Exchange) (string, error) {
		pattern, known := x.Route()
		if !known {
			x.Keep(&Decision{unrouted: advice, outer: x.Kept()})
		}
		return core.JoinKey("route", pattern), nil
	}
}

// unrouted takes back the note that ByRoute left since before was kept, and returns its advice; "" if there is none.
func unrouted(x Exchange, before *Decision) (advice string) {
	note := x.Kept()
	if note == before || note == nil || note.limiter != nil {
		return ""
	}
	x.Keep(before)
	return note.unrouted
}

// warnUnrouted says once that a request without a route was answered with status as one with a route is.
func (e *Engine[C]) warnUnrouted(x Exchange, v Verdict, status int) {
	if v.unrouted == "" || status >= http.StatusBadRequest || !e.warnedRoute.CompareAndSwap(false, true) {
		return
	}
	slog.Warn("ratelimit: ByRoute knows no route here, so all such requests share one bucket: "+v.unrouted,
		"policy", e.limiter.Name(), "path", x.Path())
}

// DecodeParam is a parameter of r's route, percent-decoded, for exchanges on net/http whose router matches the
// path as it was sent where net/http keeps that (URL.RawPath), and the decoded path elsewhere.
func DecodeParam(r *http.Request, value string) string {
	if r.URL.RawPath == "" {
		return value
	}
	if decoded, err := url.PathUnescape(value); err == nil {
		return decoded
	}
	return value
}
