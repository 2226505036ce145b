package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/felixge/httpsnoop"

	"github.com/tokenbucket-go/ratelimit/examples/demo/hosts"
	"github.com/tokenbucket-go/ratelimit/examples/demo/page"
)

// userHeader says on whose behalf a request comes. A login would, in an app.
const userHeader = "X-User"

// maxUser is how many bytes of a user's name count: all pages are told of it.
const maxUser = 256

// users are those of the page.
var users = []string{"ann", "bob"}

// policyName names the buckets that everybody's requests use. Demos on one Redis share them.
const policyName = "demo"

// scene is the settings in force, and the apps that serve under them. It never changes.
type scene struct {
	settings settings
	policy   string // whose buckets
	place    string // where they are
	replicas []*replica
	turn     atomic.Uint64 // whose the next request is
	compare  *comparison   // nil in a scenario

	alone       atomic.Int64 // decisions of this process alone
	aloneDenied atomic.Int64 // and how many of them were denials

	// Of a scenario's scene: what the requests of its run show, as no others are served, and what comes back.
	ticket string
	before *scene
}

// own are the settings that hold when no scenario runs.
func (s *scene) own() settings {
	if s.before != nil {
		return s.before.own()
	}
	return s.settings
}

// demo is the whole server: the page, the limited endpoints, and what the page is told.
type demo struct {
	mux     *http.ServeMux
	backend *backend
	url     string // of itself
	host    string // that it was told to listen on
	scene   atomic.Pointer[scene]
	told    atomic.Pointer[states] // what pages know of the buckets
	hub     hub
	history history
	latency latency
	script  script
	cluster cluster
	modes   comparedStores

	changing sync.Mutex // one change of the scene at a time
	telling  sync.Mutex // what is told of requests, and what a page begins with, are of one piece
}

func newDemo(b *backend, url string) (*demo, error) {
	d := &demo{mux: http.NewServeMux(), backend: b, url: url}
	d.history.clear()
	d.modes.refill()
	if err := d.change(defaults); err != nil {
		return nil, err
	}
	if err := page.Serve(d.mux); err != nil {
		return nil, err
	}
	d.mux.HandleFunc("GET /events", d.events)
	d.mux.HandleFunc("GET /api/hello", d.getHello)
	d.mux.HandleFunc("POST /api/settings", d.postSettings)
	d.mux.HandleFunc("POST /api/reset", d.postReset)
	d.mux.HandleFunc("GET /api/code", d.getCode)
	d.mux.HandleFunc("POST /api/replicas", d.postReplicas)
	d.mux.HandleFunc("POST /api/scenarios/{id}", d.postScenario)
	d.mux.HandleFunc("DELETE /api/scenarios", d.stopScenario)
	for _, f := range frameworks {
		d.mux.HandleFunc("GET /"+f.name+"/limited", func(w http.ResponseWriter, r *http.Request) { d.limited(w, r, f.name) })
	}
	return d, nil
}

// bodyTime is how long a client may take to send its body.
const bodyTime = 10 * time.Second

// ServeHTTP lets no other site's page change or read anything through its visitor's browser.
func (d *demo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !hosts.Known(r, d.host) {
		http.Error(w, hosts.Unknown, http.StatusForbidden)
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/limited") { // those answer with what their framework sends
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	if r.Method == http.MethodPost {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // a recorder has none
	}
	http.NewCrossOriginProtection().Handler(d.mux).ServeHTTP(w, r)
}

// change puts settings in force for everybody. Buckets keep their tokens.
func (d *demo) change(s settings) error {
	if stores, place := d.cluster.stores(); stores != nil {
		return d.changeOn(s, place, stores)
	}
	return d.changeOn(s, d.backend.text, d.sole())
}

// sole is the store while there is one replica.
func (d *demo) sole() []namedStore { return []namedStore{{store: d.backend.store}} }

// changeOn puts settings in force with a replica for each store.
func (d *demo) changeOn(s settings, place string, stores []namedStore) error {
	next, err := d.build(s, policyName, stores...)
	if err != nil {
		return err
	}
	next.compare, next.place = d.modes.compare(s), place
	d.show(next)
	return nil
}

// show makes next the scene.
func (d *demo) show(next *scene) {
	d.changing.Lock()
	defer d.changing.Unlock()
	before := d.scene.Swap(next)
	if before != nil && before.own().Key != next.own().Key {
		d.history.forgetKeys()
	}
	d.hub.send("settings", next.settings)
	d.told.Store(nil) // what was told of buckets is of another scene
}

// limited serves a request by one of the frameworks, and tells the pages.
func (d *demo) limited(w http.ResponseWriter, r *http.Request, framework string) {
	if r.Method != http.MethodGet { // frameworks differ in what they make of HEAD
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET is served here", http.StatusMethodNotAllowed)
		return
	}
	now := d.scene.Load()
	if r.Header.Get(ticketHeader) != now.ticket {
		http.Error(w, "a scenario is running, and only its own requests are served: come back when it is over", http.StatusConflict)
		return
	}
	r.Header.Del(ticketHeader)
	user := r.Header.Get(userHeader)
	if user == "" {
		user = users[0]
	}
	user = user[:min(len(user), maxUser)]
	r.Header.Set(userHeader, user)
	var body bytes.Buffer
	var decided decision
	seen := httpsnoop.Wrap(w, httpsnoop.Hooks{
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(b []byte) (int, error) {
				if body.Len() < 1024 {
					body.Write(b)
				}
				return next(b)
			}
		},
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(status int) {
				if now.ticket != "" {
					w.Header().Set(sourceHeader, decided.source)
				}
				next(status)
			}
		},
	})
	began := time.Now()
	by := now.next()
	m := httpsnoop.CaptureMetrics(by.apps[framework], seen, r.WithContext(context.WithValue(r.Context(), decisionKey{}, &decided)))
	answer := hello{}
	_ = json.Unmarshal(body.Bytes(), &answer) // of another shape when it was refused
	key, _ := httpKey(now.settings.Key)(r)
	d.history.add(request{
		At: millis(began), Framework: framework, User: user, Key: key, Replica: by.name, Modes: now.compare.decide(r.Context(), now.settings),
		Status: m.Code, Allowed: m.Code == http.StatusOK, Micros: float64(time.Since(began).Nanoseconds()) / 1000,
		Headers: shown(w.Header()), Cost: now.settings.Cost, Source: cmp.Or(decided.source, answer.Source),
	}, now.before == nil)
}

// shown are the header fields that the page shows, in the order of their names.
func shown(h http.Header) [][2]string {
	var list [][2]string
	for name, values := range h {
		if name == "Date" || name == "Content-Length" || name == sourceHeader {
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
		writeJSON(w, http.StatusRequestEntityTooLarge, map[string]any{"errors": fieldErrors{"": "the settings are too long, or came too slowly"}})
		return
	}
	s, err := parseSettings(body.Bytes())
	if err == nil {
		err = d.script.between(func() error { return d.change(s) })
	}
	var fields fieldErrors
	switch {
	case errors.Is(err, errRunning):
		writeJSON(w, http.StatusConflict, map[string]string{"error": err.Error()})
	case errors.As(err, &fields):
		writeJSON(w, http.StatusUnprocessableEntity, map[string]any{"errors": fields})
	case err != nil:
		writeJSON(w, http.StatusUnprocessableEntity, map[string]any{"errors": fieldErrors{"": err.Error()}})
	default:
		writeJSON(w, http.StatusOK, s)
	}
}

// patience is how long filling all buckets may wait for a Redis that is busy.
const patience = 5 * time.Second

// postReset fills all buckets, also those of keys that are no longer shown, and clears the run.
func (d *demo) postReset(w http.ResponseWriter, r *http.Request) {
	err := d.script.between(func() error {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		store, err := d.backend.refill(ctx)
		if err != nil {
			return err
		}
		d.backend.store = store
		if err := d.cluster.refill(ctx); err != nil {
			return err
		}
		d.modes.refill()
		return d.change(d.scene.Load().settings)
	})
	switch {
	case errors.Is(err, errRunning):
		writeJSON(w, http.StatusConflict, map[string]string{"error": err.Error()})
		return
	case err != nil:
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "Redis does not answer, so the buckets could not be filled. Try again in a moment."})
		return
	}
	d.telling.Lock()
	defer d.telling.Unlock()
	d.history.clear()
	d.latency.clear()
	d.hub.send("cleared", struct{}{})
	w.WriteHeader(http.StatusNoContent)
}

// close ends what runs beside the server: a scenario, and redis-servers of the demo's own.
func (d *demo) close() {
	d.script.close()
	d.cluster.stop()
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that has gone needs no answer
}

func millis(t time.Time) float64 { return float64(t.UnixMicro()) / 1000 }

// random is a text that nobody can guess.
func random() string { return strings.ToLower(rand.Text()) }
