package middleware

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// warnings are those of one middleware. Clients can cause most of them, so each
// kind is logged at most once a minute.
type warnings struct {
	mu    sync.Mutex // guards kinds
	kinds map[string]*kind
}

// kind is what a warnings knows of one code.
type kind struct {
	logged time.Time
	since  int64 // requests that were not logged
}

// warnEvery is how often each kind of warning is logged at most.
const warnEvery = time.Minute

// due counts a request that causes a warning. If it is to be logged, requests is
// for how many it stands, and else 0.
func (w *warnings) due(code string) (requests int64) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.kinds[code]
	if k == nil {
		if w.kinds == nil {
			w.kinds = make(map[string]*kind)
		}
		k = &kind{}
		w.kinds[code] = k
	}
	k.since++
	if !k.logged.IsZero() && now.Sub(k.logged) < warnEvery {
		return 0
	}
	requests, k.logged, k.since = k.since, now, 0
	return requests
}

// Report logs a message about a request with this path, or "" if that is not
// known, unless one with its code was logged less than a minute ago: then it is
// counted.
func (e *Engine[C]) Report(level slog.Level, message, code, path string, args ...any) {
	e.warnings.log(e.Logger(), level, message, code, e.limiter.Name(), path, args...)
}

func (w *warnings) log(log *slog.Logger, level slog.Level, message, code, policy, path string, args ...any) {
	if requests := w.due(code); requests > 0 {
		about := []any{"code", code, "policy", policy, "requests", requests}
		if path != "" {
			about = append(about, "path", path)
		}
		args = append(about, args...)
		log.Log(context.Background(), level, message, args...)
	}
}
