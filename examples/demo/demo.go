package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// demo is what the page shows: its chapters, and what the page asks for and is
// told. A server has it on the network (main.go), and a page without one has it
// compiled to WebAssembly (main_js.go).
type demo struct {
	mux      *http.ServeMux
	chapters []*chapter // in the order of the page
	place    place
	redis    *cutOff // of the chapter that loses it
	playing  sync.WaitGroup

	telling sync.Mutex // guards all below; taken before the lock of a chapter
	pages   map[chan message]bool
	told    int64 // how many decisions
}

// place is where the buckets are, and what the page says of that.
type place struct {
	buckets, redis string
	url            string // of Redis; "": in this process
	store          core.Store
}

// inProcess keeps the buckets in this process, which is called by a name.
func inProcess(name string) place {
	return place{"buckets in this " + name, "played by a store in this " + name, "", core.NewMemoryStore()}
}

// cutOff is a store that can be turned off, as if its network were cut.
type cutOff struct {
	core.Store

	off atomic.Bool
}

var errOff = errors.New("the store is turned off")

func (c *cutOff) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if c.off.Load() {
		return store.Answer{}, errOff
	}
	return c.Store.Do(ctx, r)
}

func (c *cutOff) Reset(ctx context.Context, policy, key string) error {
	if c.off.Load() {
		return errOff
	}
	return c.Store.Reset(ctx, policy, key)
}

func newDemo(at place) (*demo, error) {
	d := &demo{mux: http.NewServeMux(), place: at, redis: &cutOff{Store: at.store}, pages: map[chan message]bool{}}
	mode := func(m core.Mode) kind {
		name := strings.ToLower(m.String())
		return kind{name, "demo-" + name, core.NewMemoryStore(), func(p *core.Policy) { p.Limits[0].Mode = m }}
	}
	replica := func(name string, failure core.FailureMode) kind {
		policy, _, _ := strings.Cut(name, " ")
		return kind{name, "demo-" + policy, d.redis, func(p *core.Policy) { p.OnFailure = failure }}
	}
	for _, c := range []struct {
		id       string
		settings settings
		kinds    []kind
	}{
		{"drain", defaults, []kind{{policy: "demo", store: at.store}}},
		{"modes", refilling(10, 10, 5000, "ip"), []kind{mode(core.Continuous), mode(core.Stepped), mode(core.Aligned)}},
		{"share", defaults, []kind{
			{name: "A", policy: "demo-share", store: at.store},
			{name: "B", policy: "demo-share", store: at.store},
			{name: "alone A", policy: "demo-alone", store: core.NewMemoryStore()},
			{name: "alone B", policy: "demo-alone", store: core.NewMemoryStore()},
		}},
		{"lose", refilling(10, 1, 4000, "ip"), []kind{
			replica("closed A", core.FailClosed), replica("closed B", core.FailClosed),
			replica("open A", core.FailOpen), replica("open B", core.FailOpen),
			replica("local A", core.FailLocal), replica("local B", core.FailLocal),
		}},
		{"yours", presets[0].Settings, []kind{{policy: "demo-yours", store: at.store}}},
	} {
		next := &chapter{id: c.id, kinds: c.kinds}
		if err := next.set(c.settings); err != nil {
			return nil, err
		}
		d.chapters = append(d.chapters, next)
	}
	d.mux.HandleFunc("GET /limited", func(w http.ResponseWriter, r *http.Request) {
		d.chapter("drain").serve(w, r, "", "")
	})
	d.mux.HandleFunc("GET /api/code/{chapter}", d.getCode)
	d.mux.HandleFunc("POST /api/settings/{chapter}", d.postSettings)
	d.mux.HandleFunc("POST /api/run/{chapter}/{script}", d.postRun)
	d.mux.HandleFunc("DELETE /api/run/{chapter}", d.stopRun)
	d.mux.HandleFunc("POST /api/redis", d.postRedis)
	return d, nil
}

// chapter returns the one of an id, or nil.
func (d *demo) chapter(id string) *chapter {
	for _, c := range d.chapters {
		if c.id == id {
			return c
		}
	}
	return nil
}

// postSettings changes the settings of a chapter that the body names.
func (d *demo) postSettings(w http.ResponseWriter, r *http.Request) {
	c := d.chapter(r.PathValue("chapter"))
	if c == nil || c.id != "drain" && c.id != "yours" {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	if err != nil {
		writeJSON(w, http.StatusRequestEntityTooLarge, fieldErrors{"": "the settings are too long"})
		return
	}
	d.telling.Lock()
	defer d.telling.Unlock()
	d.tell(r.Context(), c, true) // what was so under the settings before
	s, err := c.change(r.Context(), body)
	var fields fieldErrors
	switch {
	case errors.As(err, &fields):
		writeJSON(w, http.StatusUnprocessableEntity, fields)
		return
	case err != nil:
		writeJSON(w, http.StatusUnprocessableEntity, fieldErrors{"": err.Error()})
		return
	}
	d.send("settings", map[string]any{"chapter": c.id, "settings": s})
	d.tell(r.Context(), c, true)
	writeJSON(w, http.StatusOK, s)
}

// postRun plays a script in a chapter, for all pages to see.
func (d *demo) postRun(w http.ResponseWriter, r *http.Request) {
	c := d.chapter(r.PathValue("chapter"))
	script := scripts[r.PathValue("chapter")][r.PathValue("script")]
	if script == nil {
		http.NotFound(w, r)
		return
	}
	p := &player{demo: d, chapter: c, name: r.PathValue("script")}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<12)).Decode(&p.order); err != nil {
		writeJSON(w, http.StatusUnprocessableEntity, fieldErrors{"": "must be a JSON object, such as {\"n\": 15}"})
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	if !c.begin(cancel) {
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

func (d *demo) stopRun(w http.ResponseWriter, r *http.Request) {
	if c := d.chapter(r.PathValue("chapter")); c != nil {
		c.stop()
	}
	w.WriteHeader(http.StatusNoContent)
}

// postRedis turns the Redis of the third chapter on or off.
func (d *demo) postRedis(w http.ResponseWriter, r *http.Request) {
	var want struct{ On *bool }
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&want)
	if err != nil || want.On == nil {
		writeJSON(w, http.StatusUnprocessableEntity, fieldErrors{"": `must be {"on": true} or {"on": false}`})
		return
	}
	d.turnRedis(*want.On)
	if c := d.chapter("lose"); !c.plays() {
		d.tellRun(c, run{Chapter: c.id}) // its last frame was of another outage
	}
	writeJSON(w, http.StatusOK, d.redisState())
}

func (d *demo) turnRedis(on bool) {
	d.telling.Lock()
	defer d.telling.Unlock()
	d.redis.off.Store(!on)
	d.send("redis", d.redisState())
}

// redisState is what pages know of the Redis that can be turned off.
func (d *demo) redisState() map[string]any {
	return map[string]any{"up": !d.redis.off.Load(), "text": d.place.redis}
}

// close ends the scripts that play.
func (d *demo) close() {
	for _, c := range d.chapters {
		c.stop()
	}
	d.playing.Wait()
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that has gone needs no answer
}

var started = time.Now()

// millis is t in ms since 1970, on a clock that nobody sets: pages draw by it,
// and the machine's may step.
func millis(t time.Time) float64 { return float64(started.Add(t.Sub(started)).UnixMicro()) / 1000 }
