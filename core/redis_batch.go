package core

import (
	"sync"
	"time"
)

const (
	// maxFlights is how many script calls of one store are under way at once. Decisions that come
	// meanwhile wait, and go together: the busier a store, the more of them share one call, its round
	// trip, its TIME and its command. A decision that comes alone goes at once.
	maxFlights = 4
	// maxBatch bounds how long one call keeps the server from others, at some 2 µs a decision.
	maxBatch = 512
)

// batcher gathers decisions that wait for a flight.
type batcher struct {
	most int // flights at once

	mu      sync.Mutex // guards all below; never held across I/O
	queue   []*call
	flights int
}

// takeOff returns c as the calls of a flight that begins whatever others are under way.
func (b *batcher) takeOff(c *call) []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.since = time.Now()
	b.flights++
	return []*call{c}
}

// board returns the calls of a flight to begin now, c alone, or nil when c has to wait for one.
func (b *batcher) board(c *call) []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.since = time.Now()
	if b.flights >= b.most {
		b.queue = append(b.queue, c)
		return nil
	}
	b.flights++
	return []*call{c}
}

// land ends a flight and returns the calls of the next, in the order of their coming; nil when none
// waits.
func (b *batcher) land() []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 || b.flights > b.most {
		b.flights--
		return nil
	}
	n := min(len(b.queue), maxBatch)
	batch := b.queue[:n:n]
	if b.queue = b.queue[n:]; len(b.queue) == 0 {
		b.queue = nil // the batch keeps the array
	}
	return batch
}
