package middleware

import "log/slog"

// Marker returns what a key function leaves with a request for the engine: a Decision without a limiter. The engine removes it, and
// calls log with its logger. Without a log, the advice is that of the [Admission].
func Marker(advice string, log func(*slog.Logger), outer *Decision) *Decision {
	return &Decision{key: advice, log: log, outer: outer}
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
