package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"
)

// hub tells all open pages what happens, as server-sent events.
type hub struct {
	mu    sync.Mutex
	pages map[chan []byte]bool
}

// backlog is how many events a page may be behind. One that is further is cut off, and comes again by itself.
const backlog = 256

func (h *hub) join() chan []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pages == nil {
		h.pages = make(map[chan []byte]bool)
	}
	page := make(chan []byte, backlog)
	h.pages[page] = true
	return page
}

func (h *hub) leave(page chan []byte) {
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
func (h *hub) send(event string, data any) {
	message := encode(event, data)
	h.mu.Lock()
	defer h.mu.Unlock()
	for page := range h.pages {
		select {
		case page <- message:
		default:
			delete(h.pages, page)
			close(page)
		}
	}
}

func encode(event string, data any) []byte {
	text, err := json.Marshal(data)
	if err != nil { // numbers that JSON has not, which settings can't lead to
		text = []byte("null")
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", event, text)
}

// greeting is what a page begins with.
type greeting struct {
	Store      map[string]string  `json:"store"`
	Settings   settings           `json:"settings"`
	Frameworks []string           `json:"frameworks"`
	Users      []string           `json:"users"`
	Scenarios  []scenarioInfo     `json:"scenarios"`
	Now        float64            `json:"now"`
	Log        []request          `json:"log"`
	Metrics    metrics            `json:"metrics"`
	State      []bucketState      `json:"state"`
	Verdicts   map[string]verdict `json:"verdicts"`
	Running    string             `json:"running"`
}

func (d *demo) greet() greeting {
	g := greeting{
		Store: map[string]string{"kind": d.backend.kind, "text": d.backend.text}, Settings: d.scene.Load().settings, Users: users,
		Now: millis(time.Now()), Log: d.history.latest(), Metrics: d.metrics(), State: d.states(),
	}
	for _, f := range frameworks {
		g.Frameworks = append(g.Frameworks, f.name)
	}
	g.Scenarios, g.Verdicts, g.Running = d.script.info()
	if g.Log == nil {
		g.Log = []request{}
	}
	return g
}

// events streams to one page.
func (d *demo) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	stream := http.NewResponseController(w)
	page := d.hub.join()
	defer d.hub.leave(page)
	if _, err := w.Write(encode("hello", d.greet())); err != nil || stream.Flush() != nil {
		return
	}
	for {
		select {
		case message, open := <-page:
			if !open {
				return
			}
			_ = stream.SetWriteDeadline(time.Now().Add(10 * time.Second)) // a page that stands still is cut off
			if _, err := w.Write(message); err != nil || stream.Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// tick tells the pages what happened since the last tick, until ctx ends.
func (d *demo) tick(ctx context.Context) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	var told metrics
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		fresh, dropped := d.history.news()
		if d.hub.empty() { // a page that comes begins with the latest
			continue
		}
		if len(fresh) > 0 {
			d.hub.send("requests", map[string]any{"list": fresh, "dropped": dropped})
		}
		if len(fresh) > 0 || n%5 == 0 {
			d.hub.send("state", map[string]any{"list": d.states()})
		}
		if m := d.metrics(); n%5 == 0 && !reflect.DeepEqual(m, told) {
			d.hub.send("metrics", m)
			told = m
		}
	}
}
