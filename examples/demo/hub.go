package main

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// hub tells all open pages what happens, in order.
type hub struct {
	mu    sync.Mutex
	pages map[chan message]bool
}

// message is what pages are told: what it is about, and JSON.
type message struct {
	name string
	data []byte
}

// backlog is how many events a page may be behind. One that is further is cut off, and comes again by itself.
const backlog = 256

func (h *hub) join() chan message {
	h.mu.Lock()
	defer h.mu.Unlock()
	page := make(chan message, backlog)
	h.pages[page] = true
	return page
}

func (h *hub) leave(page chan message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pages, page)
}

func (h *hub) empty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pages) == 0
}

// send tells all pages.
func (h *hub) send(name string, data any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	told := encode(name, data)
	for page := range h.pages {
		select {
		case page <- told:
		default:
			delete(h.pages, page)
			close(page)
		}
	}
}

func encode(name string, data any) message {
	text, err := json.Marshal(data)
	if err != nil { // numbers that JSON has not, which settings can't lead to
		text = []byte("null")
	}
	return message{name, text}
}

// tickTime is how often pages are told.
const tickTime = 50 * time.Millisecond

// tick tells the pages what happened since the last tick, until ctx ends. While nothing happens it tells nothing.
func (d *demo) tick(ctx context.Context) {
	ticker := time.NewTicker(tickTime)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		d.tell()
		if d.hub.empty() || n%2 == 1 {
			continue
		}
		if n%20 == 0 { // other processes on the same Redis take tokens too
			d.tellBuckets(d.look(ctx))
		} else if stages := d.awake(); len(stages) > 0 {
			d.tellBuckets(d.look(ctx, stages...))
		}
	}
}

const (
	toldAtOnce = 60  // decisions of a tick that pages are told of one by one; in a flood the rest is only counted
	kept       = 250 // decisions of a stage that a page gets when it is opened: all of a chapter
	pastKept   = 150 // states of buckets of a stage
)

// add notes a decision.
func (d *demo) add(made *decision) {
	d.telling.Lock()
	defer d.telling.Unlock()
	d.pending = append(d.pending, made)
	delete(d.begun, made)
}

// begin notes that a decision will be made, and noted by add. Until then nothing is told of its bucket that may come after it.
func (d *demo) begin(made *decision) {
	d.telling.Lock()
	defer d.telling.Unlock()
	made.began = millis(time.Now())
	d.begun[made] = true
}

// told takes those of pending that no other decision on their bucket can come before.
func (d *demo) told() (list []*decision) {
	first := map[string]float64{}
	for m := range d.begun {
		if at, ok := first[m.bucketID()]; !ok || m.began < at {
			first[m.bucketID()] = m.began
		}
	}
	d.pending = slices.DeleteFunc(d.pending, func(m *decision) bool {
		at, waits := first[m.bucketID()]
		if waits = waits && at <= m.At; !waits {
			list = append(list, m)
		}
		return !waits
	})
	return list
}

// tell tells the pages of decisions, in the order in which they were made.
func (d *demo) tell() {
	d.telling.Lock()
	defer d.telling.Unlock()
	list := d.told()
	if len(list) == 0 {
		return
	}
	slices.SortStableFunc(list, func(a, b *decision) int { // of those in one microsecond each left less than the one before
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.Status, b.Status), cmp.Compare(b.Remaining, a.Remaining))
	})
	skipped := map[string]int{}
	for len(list) > toldAtOnce {
		i := max(0, slices.IndexFunc(list, func(m *decision) bool { return !m.Allowed })) // those that were allowed are the news
		skipped[list[i].Stage]++
		list = slices.Delete(list, i, i+1)
	}
	at := map[string]float64{}
	for _, m := range list {
		d.id++
		m.ID, m.At = d.id, max(m.At, at[m.Stage])
		at[m.Stage] = m.At
		d.known[m.bucketID()] = m.bucket()
		d.log[m.Stage] = append(d.log[m.Stage], m)
	}
	for id, log := range d.log {
		d.log[id] = slices.Clone(log[max(0, len(log)-kept):])
	}
	d.hub.send("decisions", map[string]any{"list": list, "skipped": skipped})
}

// forget has the log of a stage begin anew: its chapter counts what is there.
func (d *demo) forget(st *stage) {
	d.tell()
	d.telling.Lock()
	defer d.telling.Unlock()
	delete(d.log, st.id)
}

// alone is how many decisions of a stage's log its replicas made without Redis.
func (d *demo) alone(st *stage) (n int) {
	d.tell()
	d.telling.Lock()
	defer d.telling.Unlock()
	for _, m := range d.log[st.id] {
		if m.Source == core.FromFallback.String() {
			n++
		}
	}
	return n
}

// tellBuckets tells the pages of those buckets that are not as they know them.
func (d *demo) tellBuckets(list []bucket) {
	d.telling.Lock()
	defer d.telling.Unlock()
	if news := d.fresh(list); len(news) > 0 {
		d.hub.send("buckets", news)
	}
}

// greeting is what a page begins with.
type greeting struct {
	Now     float64               `json:"now"`
	Place   string                `json:"place"`   // where the buckets are
	Through string                `json:"through"` // what is to be said of the frameworks
	Redis   power                 `json:"redis"`
	Presets []preset              `json:"presets"`
	Stages  map[string]stageState `json:"stages"`
	Buckets []bucket              `json:"buckets"`
	Past    []bucket              `json:"past"`
	Log     []*decision           `json:"log"`
}

type stageState struct {
	Settings settings `json:"settings"`
	Run      played   `json:"run"`
}

// greet makes a greeting, and opens a stream of all that comes after it.
func (d *demo) greet(ctx context.Context) (greeting, chan message) {
	d.tell()
	list := d.look(ctx) // it may wait for Redis
	d.telling.Lock()
	defer d.telling.Unlock()
	if news := d.fresh(list); len(news) > 0 {
		d.hub.send("buckets", news)
	}
	g := greeting{Now: millis(time.Now()), Place: d.backend.text, Through: through, Redis: d.box.state(), Presets: presets, Stages: map[string]stageState{}, Past: slices.Concat(slices.Collect(maps.Values(d.past))...), Log: d.latest()}
	for _, st := range d.stages {
		st.mu.Lock()
		g.Stages[st.id] = stageState{st.settings, st.run}
		st.mu.Unlock()
	}
	for _, b := range list {
		g.Buckets = append(g.Buckets, d.known[b.id()])
	}
	return g, d.hub.join()
}

// latest are the decisions that are kept, oldest first. Of each stage only the last has its answer. It requires that d.telling is held.
func (d *demo) latest() []*decision {
	list := []*decision{}
	for _, id := range slices.Sorted(maps.Keys(d.log)) {
		for i, m := range d.log[id] {
			if short := *m; i < len(d.log[id])-1 {
				short.Headers, short.Body = nil, ""
				m = &short
			}
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b *decision) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// getLog is the log of decisions, as the page's table has it.
func (d *demo) getLog(w http.ResponseWriter, _ *http.Request) {
	d.tell()
	d.telling.Lock()
	defer d.telling.Unlock()
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, d.latest())
}
