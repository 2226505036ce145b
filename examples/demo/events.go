package main

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"
)

// message is what pages are told: what it is about, and JSON.
type message struct {
	name string
	data []byte
}

func encode(name string, data any) message {
	text, err := json.Marshal(data)
	if err != nil { // numbers that JSON has not, which settings can't lead to
		text = []byte("null")
	}
	return message{name, text}
}

// backlog is how many messages a page may be behind. One that is further behind
// is cut off, and connects again by itself.
const backlog = 256

// send tells all pages. It requires that d.telling is held.
func (d *demo) send(name string, data any) {
	m := encode(name, data)
	for page := range d.pages {
		select {
		case page <- m:
		default:
			delete(d.pages, page)
			close(page)
		}
	}
}

func (d *demo) leave(page chan message) {
	d.telling.Lock()
	defer d.telling.Unlock()
	delete(d.pages, page)
}

// tick tells the pages what happened since the last tick, until ctx ends. While
// nothing happens it tells nothing.
func (d *demo) tick(ctx context.Context) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		d.telling.Lock()
		for _, c := range d.chapters {
			d.tell(ctx, c, n%2 == 0 && len(d.pages) > 0)
		}
		d.telling.Unlock()
	}
}

// tell tells the pages of a chapter's decisions, and if look is set of the
// buckets that have changed since. It requires that d.telling is held.
func (d *demo) tell(ctx context.Context, c *chapter, look bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) > 0 {
		for _, m := range c.pending {
			d.told++
			m.ID = d.told
			c.known[m.id()] = m.bucket
		}
		d.send("decisions", c.pending)
		c.pending = nil
	}
	if !look {
		return
	}
	if news := c.look(ctx); len(news) > 0 {
		d.send("buckets", news)
	}
}

// greeting is what a page begins with.
type greeting struct {
	Now      float64                 `json:"now"`
	Place    string                  `json:"place"` // where the buckets are
	Redis    any                     `json:"redis"`
	Presets  []preset                `json:"presets"`
	Chapters map[string]chapterState `json:"chapters"`
	Buckets  []bucket                `json:"buckets"`
}

type chapterState struct {
	Settings settings `json:"settings"`
	Run      run      `json:"run"`
}

// greet returns a greeting, and a stream of all that comes after it.
func (d *demo) greet(ctx context.Context) (message, chan message) {
	d.telling.Lock()
	defer d.telling.Unlock()
	g := greeting{Place: d.place.buckets, Redis: d.redisState(), Presets: presets, Chapters: map[string]chapterState{}}
	for _, c := range d.chapters {
		d.tell(ctx, c, true)
		c.mu.Lock()
		g.Chapters[c.id] = chapterState{c.settings, c.run}
		for _, b := range c.known {
			g.Buckets = append(g.Buckets, b)
		}
		c.mu.Unlock()
	}
	slices.SortFunc(g.Buckets, func(a, b bucket) int {
		return cmp.Or(cmp.Compare(a.Chapter, b.Chapter), cmp.Compare(a.id(), b.id()))
	})
	g.Now = millis(time.Now())
	page := make(chan message, backlog)
	d.pages[page] = true
	return encode("hello", g), page
}

// tellRun tells the pages what became of a script.
func (d *demo) tellRun(c *chapter, r run) {
	d.telling.Lock()
	defer d.telling.Unlock()
	d.tell(context.Background(), c, false) // the requests before what came of them
	r.At = millis(time.Now())
	c.mu.Lock()
	c.run = r
	c.mu.Unlock()
	d.send("run", r)
}
