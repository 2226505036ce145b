package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/felixge/httpsnoop"

	"github.com/tokenbucket-go/ratelimit/core"
)

//go:embed page/index.html
var page []byte

// userHeader says on whose behalf a request comes. A login would, in an app.
const userHeader = "X-User"

// maxUser is how many bytes of a user's name count: all pages are told of it.
const maxUser = 256

// users are those of the page.
var users = []string{"ann", "bob"}

// scene is the settings in force, and the apps that serve under them. It never changes.
type scene struct {
	settings settings
	limiter  *core.Limiter
	apps     map[string]http.Handler
}

// demo is the whole server: the page, the limited endpoints, and what the page is told.
type demo struct {
	mux     *http.ServeMux
	backend *backend
	url     string // of itself
	scene   atomic.Pointer[scene]
	hub     hub
	history history
	latency latency
	script  script

	changing sync.Mutex // one change of the scene at a time
}

func newDemo(b *backend, url string) (*demo, error) {
	d := &demo{mux: http.NewServeMux(), backend: b, url: url}
	d.history.clear()
	if _, err := d.change(defaults, b.store); err != nil {
		return nil, err
	}
	d.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'")
		_, _ = w.Write(page)
	})
	d.mux.HandleFunc("GET /events", d.events)
	d.mux.HandleFunc("POST /api/settings", d.postSettings)
	d.mux.HandleFunc("POST /api/reset", d.postReset)
	d.mux.HandleFunc("POST /api/scenarios/{id}", d.postScenario)
	d.mux.HandleFunc("DELETE /api/scenarios", d.stopScenario)
	for _, f := range frameworks {
		d.mux.HandleFunc("GET /"+f.name+"/limited", func(w http.ResponseWriter, r *http.Request) { d.limited(w, r, f.name) })
	}
	return d, nil
}

// ServeHTTP lets no other site's page change anything through its visitor's browser.
func (d *demo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	http.NewCrossOriginProtection().Handler(d.mux).ServeHTTP(w, r)
}

// change puts settings in force, in a store. Buckets keep their tokens.
func (d *demo) change(s settings, store core.Store) (*scene, error) {
	d.changing.Lock()
	defer d.changing.Unlock()
	limiter, err := core.NewLimiter(&timed{store, &d.latency}, s.policy())
	if err != nil {
		return nil, err
	}
	next := &scene{settings: s, limiter: limiter, apps: make(map[string]http.Handler)}
	for _, f := range frameworks {
		next.apps[f.name] = f.app(limiter, s)
	}
	before := d.scene.Swap(next)
	if before == nil || before.settings.Key != s.Key {
		d.history.forgetKeys()
	}
	d.hub.send("settings", s)
	return before, nil
}

// restore puts back what change replaced.
func (d *demo) restore(before *scene) {
	d.changing.Lock()
	defer d.changing.Unlock()
	if d.scene.Swap(before).settings.Key != before.settings.Key {
		d.history.forgetKeys()
	}
	d.hub.send("settings", before.settings)
}

// limited serves a request by one of the frameworks, and tells the pages.
func (d *demo) limited(w http.ResponseWriter, r *http.Request, framework string) {
	now := d.scene.Load()
	user := r.Header.Get(userHeader)
	if user == "" {
		user = users[0]
	}
	user = user[:min(len(user), maxUser)]
	r.Header.Set(userHeader, user)
	var body bytes.Buffer
	seen := httpsnoop.Wrap(w, httpsnoop.Hooks{
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(b []byte) (int, error) {
				if body.Len() < 1024 {
					body.Write(b)
				}
				return next(b)
			}
		},
	})
	began := time.Now()
	m := httpsnoop.CaptureMetrics(now.apps[framework], seen, r)
	answer := hello{}
	_ = json.Unmarshal(body.Bytes(), &answer) // of another shape when it was refused
	key, _ := httpKey(now.settings.Key)(r)
	d.history.add(request{
		At: millis(began), Framework: framework, User: user, Key: key,
		Status: m.Code, Allowed: m.Code == http.StatusOK, Micros: float64(time.Since(began).Nanoseconds()) / 1000,
		Headers: shown(w.Header()), Cost: now.settings.Cost, Source: answer.Source,
	})
}

// shown are the header fields that the page shows, in the order of their names.
func shown(h http.Header) [][2]string {
	var list [][2]string
	for name, values := range h {
		if name == "Date" || name == "Content-Length" {
			continue
		}
		for _, v := range values {
			list = append(list, [2]string{name, v})
		}
	}
	slices.SortFunc(list, func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	return list
}

func (d *demo) postSettings(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, 1<<16)); err != nil {
		writeJSON(w, http.StatusRequestEntityTooLarge, map[string]any{"errors": fieldErrors{"": "the settings are too long"}})
		return
	}
	s, err := parseSettings(body.Bytes())
	if err == nil && d.script.running() {
		err = fieldErrors{"": "a scenario is running: stop it first"}
	}
	if err == nil {
		_, err = d.change(s, d.backend.store)
	}
	if err != nil {
		writeJSON(w, http.StatusUnprocessableEntity, map[string]any{"errors": err})
		return
	}
	writeJSON(w, http.StatusOK, s)
}

func (d *demo) postReset(w http.ResponseWriter, r *http.Request) {
	now := d.scene.Load()
	for key := range d.inUse(now) {
		if err := now.limiter.Reset(r.Context(), key); err != nil {
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "the buckets can't be reset: the store is away"})
			return
		}
	}
	d.history.clear()
	d.latency.clear()
	d.hub.send("cleared", struct{}{})
	w.WriteHeader(http.StatusNoContent)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that has gone needs no answer
}

func millis(t time.Time) float64 { return float64(t.UnixMicro()) / 1000 }
