package main

import (
	"slices"
	"sync"
	"time"
)

const (
	kept       = 100         // requests that a page gets when it is opened
	told       = 200         // that pages are told of one by one, of those that came at once
	maxKeys    = 1000        // whose buckets may be shown
	remembered = time.Minute // how long a bucket is shown after its last request
)

// request is what the pages are told of one.
type request struct {
	ID        int64       `json:"id"`
	At        float64     `json:"at"` // ms since 1970
	Framework string      `json:"framework"`
	User      string      `json:"user"`
	Key       string      `json:"key"`
	Status    int         `json:"status"`
	Allowed   bool        `json:"allowed"`
	Micros    float64     `json:"micros"`
	Headers   [][2]string `json:"headers"`
	Cost      int64       `json:"cost"`
	Source    string      `json:"source"`
}

// history is the requests of the run.
type history struct {
	mu                       sync.Mutex // guards all below
	last                     []request  // the latest, at most kept
	fresh                    []request  // not told yet, at most told
	dropped                  int        // and those that won't be
	admitted, denied, errors int64
	since                    time.Time
	keys                     map[string]used
}

// used is who used a key, and when.
type used struct {
	user string
	at   time.Time
}

func (h *history) add(r request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case r.Allowed:
		h.admitted++
	case r.Status == 429:
		h.denied++
	default:
		h.errors++
	}
	r.ID = h.admitted + h.denied + h.errors
	h.last = append(h.last, r)
	h.last = h.last[max(0, len(h.last)-kept):]
	h.fresh = append(h.fresh, r)
	if over := len(h.fresh) - told; over > 0 {
		h.fresh, h.dropped = h.fresh[over:], h.dropped+over
	}
	if _, known := h.keys[r.Key]; r.Key != "" && (known || len(h.keys) < maxKeys) {
		h.keys[r.Key] = used{r.User, time.Now()}
	}
}

// news takes what was not told yet.
func (h *history) news() (fresh []request, dropped int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fresh, dropped = h.fresh, h.dropped
	h.fresh, h.dropped = nil, 0
	return fresh, dropped
}

// latest are the requests that a page begins with.
func (h *history) latest() []request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.last)
}

// buckets are the keys that were used lately, with their users.
func (h *history) buckets() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make(map[string]string)
	for key, u := range h.keys {
		if time.Since(u.at) < remembered {
			list[key] = u.user
		} else {
			delete(h.keys, key)
		}
	}
	return list
}

// forgetKeys drops the buckets in use: under another kind of key they are no longer asked for.
func (h *history) forgetKeys() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.keys)
}

// clear begins anew.
func (h *history) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.fresh, h.dropped = nil, nil, 0
	h.admitted, h.denied, h.errors = 0, 0, 0
	h.since, h.keys = time.Now(), make(map[string]used)
}
