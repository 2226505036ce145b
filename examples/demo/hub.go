package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// hub tells all open pages what happens, as server-sent events.
type hub struct {
	mu    sync.Mutex
	seq   int64 // of the latest event
	pages map[chan []byte]bool
}

// backlog is how many events a page may be behind. One that is further is cut off, and comes again by itself.
const backlog = 256

// join opens a stream, of the events after seq.
func (h *hub) join() (page chan []byte, seq int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pages == nil {
		h.pages = make(map[chan []byte]bool)
	}
	page = make(chan []byte, backlog)
	h.pages[page] = true
	return page, h.seq
}

func (h *hub) leave(page chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pages, page)
}

func (h *hub) latest() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seq
}

func (h *hub) empty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pages) == 0
}

// send tells all pages.
func (h *hub) send(event string, data any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq++
	message := encode(event, h.seq, data)
	for page := range h.pages {
		select {
		case page <- message:
		default:
			delete(h.pages, page)
			close(page)
		}
	}
}

func encode(event string, seq int64, data any) []byte {
	text, err := json.Marshal(data)
	if err != nil { // numbers that JSON has not, which settings can't lead to
		text = []byte("null")
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\nid: %d\n\n", event, text, seq)
}

// greeting is what a page begins with.
type greeting struct {
	Seq        int64              `json:"seq"` // of the latest event that it knows of
	Store      place              `json:"store"`
	Settings   settings           `json:"settings"` // in force
	Own        settings           `json:"own"`      // when no scenario runs
	Frameworks []string           `json:"frameworks"`
	Users      []string           `json:"users"`
	Scenarios  []scenarioInfo     `json:"scenarios"`
	Now        float64            `json:"now"`
	Log        []request          `json:"log"`
	Bins       bins               `json:"bins"`
	Metrics    metrics            `json:"metrics"`
	State      []bucketState      `json:"state"`
	Modes      []bucketState      `json:"modes"`
	More       int                `json:"more"`
	Verdicts   map[string]verdict `json:"verdicts"`
	Running    string             `json:"running"`
	Presets    []preset           `json:"presets"`
	Replicas   clusterState       `json:"replicas"`
}

// greet makes a greeting and, with it, opens a stream of all that comes after, if one is wanted.
func (d *demo) greet(stream bool) (g greeting, page chan []byte) {
	s := d.states()   // it may wait for Redis
	d.told.Store(nil) // the next look is told: what pages expect follows from one state
	d.telling.Lock()
	defer d.telling.Unlock()
	if stream {
		page, g.Seq = d.hub.join()
	} else {
		g.Seq = d.hub.latest()
	}
	now := d.scene.Load()
	g.Store, g.State, g.Modes, g.More = s.Store, s.List, s.Modes, s.More
	g.Settings, g.Own, g.Users, g.Metrics = now.settings, now.own(), users, d.metrics()
	g.Log, g.Bins = d.history.latest()
	for _, f := range frameworks {
		g.Frameworks = append(g.Frameworks, f.name)
	}
	g.Scenarios, g.Verdicts, g.Running = d.script.info()
	g.Presets, g.Replicas = presets, d.cluster.state()
	g.Now = millis(time.Now())
	return g, page
}

// getHello greets a page that hears the events from another tab's stream.
func (d *demo) getHello(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	g, _ := d.greet(false)
	writeJSON(w, http.StatusOK, g)
}

// events streams to one page.
func (d *demo) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	stream := http.NewResponseController(w)
	g, page := d.greet(true)
	defer d.hub.leave(page)
	if _, err := w.Write(encode("hello", g.Seq, g)); err != nil || stream.Flush() != nil {
		return
	}
	silence := time.NewTicker(heartbeat)
	defer silence.Stop()
	for {
		var message []byte
		select {
		case m, open := <-page:
			if !open {
				return
			}
			message = m
		case <-silence.C: // a comment, of which the page hears nothing: it finds out whether the page is still there
			message = []byte(": still here\n\n")
		case <-r.Context().Done():
			return
		}
		_ = stream.SetWriteDeadline(time.Now().Add(10 * time.Second)) // a page that stands still is cut off
		if _, err := w.Write(message); err != nil || stream.Flush() != nil {
			return
		}
	}
}

// heartbeat is how often the server looks whether a page that has nothing to hear is still there.
const heartbeat = 20 * time.Second

// tick tells the pages what happened since the last tick, until ctx ends. While nothing happens it tells nothing: pages
// know how buckets refill.
func (d *demo) tick(ctx context.Context) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	var last metrics
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		all := n%5 == 0 && !d.hub.empty() // a page that comes begins with the latest
		now := last
		if all { // before requests are told: metrics never count one that pages have not heard of
			now = d.metrics()
		}
		some := d.tellRequests()
		if d.hub.empty() {
			continue
		}
		if some || all {
			d.tellStates(some)
		}
		if now != last {
			d.hub.send("metrics", now)
			last = now
		}
	}
}

// tellStates tells the pages of the buckets, if it must or if they are not as the pages expect.
func (d *demo) tellStates(must bool) {
	now := d.states()
	if before := d.told.Load(); must || before == nil || !before.foretell(now) {
		d.told.Store(&now)
		d.hub.send("state", now)
	}
}

// tellRequests tells the pages of requests, if there were any.
func (d *demo) tellRequests() bool {
	d.telling.Lock()
	defer d.telling.Unlock()
	fresh, dropped := d.history.news()
	if len(fresh) == 0 {
		return false
	}
	d.hub.send("requests", map[string]any{"list": fresh, "dropped": dropped})
	return true
}
