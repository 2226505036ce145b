package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// userHeader says on whose behalf a request comes. A login would, in an app.
const userHeader = "X-User"

// users are those of the page.
var users = []string{"ann", "bob"}

// together is the key of everybody's bucket.
var together = core.JoinKey("global", "demo")

// keyOfAddress is the key of those who ask from an IP address.
func keyOfAddress(ip string) string {
	key, _ := httpKey("ip")(&http.Request{RemoteAddr: net.JoinHostPort(ip, "80")})
	return key
}

// demo is what the page shows: the limited endpoints, and what the page asks for and is told. A server has it on the network (server.go),
// and a page without one has it compiled to WebAssembly (main_js.go).
type demo struct {
	mux     *http.ServeMux
	backend *backend
	box     *box
	stages  []*stage // in the order of the page
	hub     hub

	// send sends a GET request of a script through the mux, and returns the status of the answer.
	send func(ctx context.Context, path string, header http.Header) (status int, err error)

	telling sync.Mutex // guards all below: what is told, and what a page begins with, are of one piece
	pending []*decision
	id      int64 // of the latest decision that was told
	log     map[string][]*decision
	known   map[string]bucket   // what pages know of buckets
	begun   map[*decision]bool  // of which nothing is told yet
	past    map[string][]bucket // what pages were told of them, the latest of each stage

	playing sync.WaitGroup
}

// newDemo returns a demo whose scripts ask from the address ip.
func newDemo(b *backend, ip string) (*demo, error) {
	d := &demo{mux: http.NewServeMux(), backend: b, box: newBox(), hub: hub{pages: map[chan message]bool{}},
		log: map[string][]*decision{}, known: map[string]bucket{}, past: map[string][]bucket{}, begun: map[*decision]bool{}}
	two := func(mode string, how core.FailureMode) []spec {
		fails := func(p *core.Policy) { p.OnFailure = how }
		return []spec{{mode + " A", "demo-" + mode, d.box.plugs[0], fails}, {mode + " B", "demo-" + mode, d.box.plugs[1], fails}}
	}
	in := func(mode core.Mode) spec {
		name := strings.ToLower(mode.String())
		return spec{name, "demo-" + name, core.NewMemoryStore(), func(p *core.Policy) { p.Limits[0].Mode = mode }}
	}
	share := two("", core.FailLocal)
	share[0].name, share[1].name = "A", "B"
	for _, name := range []string{"alone A", "alone B"} {
		share = append(share, spec{name: name, policy: "demo-alone", store: core.NewMemoryStore()})
	}
	for _, st := range []struct {
		id       string
		settings settings
		specs    []spec
	}{
		{"drain", defaults, []spec{{policy: "demo", store: b.store}}},
		{"modes", refilling(10, 10, 5000, "ip"), []spec{in(core.Continuous), in(core.Stepped), in(core.Aligned)}},
		{"share", defaults, share},
		{"lose", refilling(10, 1, 4000, "ip"), append(append(two("closed", core.FailClosed), two("open", core.FailOpen)...), two("local", core.FailLocal)...)},
		{"yours", presets[0].Settings, []spec{{policy: "demo-yours", store: b.store}}},
	} {
		next := &stage{id: st.id, specs: st.specs, own: keyOfAddress(ip)}
		if err := next.set(st.settings); err != nil {
			return nil, err
		}
		d.stages = append(d.stages, next)
	}
	d.mux.HandleFunc("GET /api/log", d.getLog)
	d.mux.HandleFunc("GET /api/code/{stage}", d.getCode)
	d.mux.HandleFunc("POST /api/settings/{stage}", d.postSettings)
	d.mux.HandleFunc("POST /api/run/{stage}/{script}", d.postRun)
	d.mux.HandleFunc("DELETE /api/run/{stage}", d.stopRun)
	d.mux.HandleFunc("POST /api/redis", d.postRedis)
	for _, f := range frameworks {
		d.mux.HandleFunc("GET /"+f.name+"/limited", func(w http.ResponseWriter, r *http.Request) { d.limited(w, r, f.name) })
	}
	return d, nil
}

// stage returns the one of a name, or nil.
func (d *demo) stage(id string) *stage {
	for _, st := range d.stages {
		if st.id == id {
			return st
		}
	}
	return nil
}

// limited serves a request by one of the frameworks. What nobody sent elsewhere goes to the first picture.
func (d *demo) limited(w http.ResponseWriter, r *http.Request, framework string) {
	if r.Method != http.MethodGet { // frameworks differ in what they make of HEAD
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET is served here", http.StatusMethodNotAllowed)
		return
	}
	st := d.stage(r.Header.Get(stageHeader))
	if st == nil {
		st = d.stage("drain")
	}
	user := r.Header.Get(userHeader)
	if user == "" {
		user = users[0]
	}
	r.Header.Set(userHeader, user[:min(len(user), 256)])
	l := st.lane(r.Header.Get(laneHeader))
	made := l.request(r, st, framework)
	if l.settings.Takes == 0 { // else its slot is seen while it works
		d.begin(made)
	}
	defer d.add(made)
	st.serve(w, r, l, made)
	st.stirred.Add(1) // it may have been seen full since it came
}

// postSettings changes the settings of a stage that are named in the body.
func (d *demo) postSettings(w http.ResponseWriter, r *http.Request) {
	st := d.stage(r.PathValue("stage"))
	if st == nil || st.id != "drain" && st.id != "yours" {
		http.NotFound(w, r)
		return
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, 1<<16)); err != nil {
		writeJSON(w, http.StatusRequestEntityTooLarge, fieldErrors{"": "the settings are too long, or came too slowly"})
		return
	}
	s, err := st.change(body.Bytes())
	var fields fieldErrors
	switch {
	case errors.As(err, &fields):
		writeJSON(w, http.StatusUnprocessableEntity, fields)
		return
	case err != nil:
		writeJSON(w, http.StatusUnprocessableEntity, fieldErrors{"": err.Error()})
		return
	}
	d.telling.Lock()
	maps.DeleteFunc(d.known, func(_ string, b bucket) bool { return b.Stage == st.id }) // another kind of key has other buckets
	d.hub.send("settings", map[string]any{"stage": st.id, "settings": s})
	d.telling.Unlock()
	d.tellBuckets(d.look(r.Context()))
	writeJSON(w, http.StatusOK, s)
}

// postRun plays a script on a stage, for all pages to see.
func (d *demo) postRun(w http.ResponseWriter, r *http.Request) {
	st := d.stage(r.PathValue("stage"))
	script := scripts[r.PathValue("stage")][r.PathValue("script")]
	if script == nil {
		http.NotFound(w, r)
		return
	}
	p := &player{demo: d, stage: st, name: r.PathValue("script")}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<12)).Decode(&p.order); err != nil {
		writeJSON(w, http.StatusUnprocessableEntity, fieldErrors{"": "must be a JSON object, such as {\"n\": 15}"})
		return
	}
	if p.order.Auto && !d.untouched(r.Context(), st) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	if !p.begin(cancel) {
		cancel()
		writeJSON(w, http.StatusConflict, fieldErrors{"": "it plays already: stop it, or wait until it is over"})
		return
	}
	d.playing.Go(func() {
		defer cancel()
		p.play(ctx, script)
	})
	w.WriteHeader(http.StatusAccepted)
}

// untouched reports whether a stage may play by itself: its bucket is full, its store decides, and nobody used it just now.
func (d *demo) untouched(ctx context.Context, st *stage) bool {
	lanes, seen := st.shown()
	st.mu.Lock()
	idle := time.Since(st.last) >= time.Minute
	st.mu.Unlock()
	res, err := lanes[0].limiter.Peek(ctx, seen[0].key)
	return idle && err == nil && res.Source == core.FromStore && res.ResetAfter == 0
}

func (d *demo) stopRun(w http.ResponseWriter, r *http.Request) {
	if st := d.stage(r.PathValue("stage")); st != nil {
		st.stop()
	}
	w.WriteHeader(http.StatusNoContent)
}

// playing reports whether a script plays.
func (st *stage) playing() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.cancel != nil
}

// stop ends the script that plays, if one does.
func (st *stage) stop() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cancel != nil {
		st.cancel()
	}
}

func (d *demo) tellRun(st *stage, r played) {
	r.At = millis(time.Now())
	st.mu.Lock()
	st.run = r
	st.mu.Unlock()
	d.hub.send("run", r)
}

// postRedis turns the Redis of the replicas on or off.
func (d *demo) postRedis(w http.ResponseWriter, r *http.Request) {
	var want struct{ On *bool }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&want); err != nil || want.On == nil {
		writeJSON(w, http.StatusUnprocessableEntity, fieldErrors{"": `must be {"on": true} or {"on": false}`})
		return
	}
	d.turnRedis(context.WithoutCancel(r.Context()), *want.On)
	if st := d.stage("lose"); !st.playing() {
		d.tellRun(st, played{Stage: st.id}) // its last frame was of another outage
	}
	writeJSON(w, http.StatusOK, d.box.state())
}

func (d *demo) turnRedis(ctx context.Context, on bool) {
	if err := d.box.turn(ctx, on); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
	}
	for _, st := range d.stages {
		st.stirred.Add(1)
	}
	d.hub.send("redis", d.box.state())
}

// close ends what runs beside the server: scripts, and the redis-server of the demo's own.
func (d *demo) close() {
	for _, st := range d.stages {
		st.stop()
	}
	d.playing.Wait()
	d.box.close()
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that has gone needs no answer
}

var started = time.Now()

// millis is t in ms since 1970, on a clock that nobody sets: pages draw by it, and the machine's may step.
func millis(t time.Time) float64 { return float64(started.Add(t.Sub(started)).UnixMicro()) / 1000 }
