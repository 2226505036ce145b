package core

import (
	"sync"
	"time"
)

// maxBatch bounds how long one call keeps the server from others, at some 2 µs a decision.
const maxBatch = 512

// batcher gathers the decisions that wait for a flight: one script call, or pipeline, that carries many of
// them. Decisions that come while all flights are under way go together with the next: the busier a store,
// the more of them share one call, its round trip, its TIME and its command. A decision that comes alone
// goes at once.
type batcher struct {
	room  int           // the most flights at once, however far the server is
	limit time.Duration // how long a caller may wait in the queue

	// expire is called when the head of the queue may have waited for too long.
	expire func()
	// spare reports whether the client has a connection that nobody uses.
	spare func() bool

	mu      sync.Mutex    // guards all below; never held across I/O
	queue   []*call       // in the order of their coming
	flights int           // under way
	last    time.Time     // when one of them took off
	pending int           // that will take off when they have a connection, or the last is some way off
	paced   bool          // one is pending for the latter
	ready   int           // how many at once are known to find a connection each
	doubt   bool          // a connection was lost, and none made since
	took    time.Duration // by the last that landed
	trip    roundTrip
	timer   *time.Timer // of expire; nil until it is first needed
	timed   bool        // the timer is running
}

// departure is what a goroutine is to do for the queue: nothing, if it is the zero one.
type departure struct {
	batch   []*call       // to send now
	connect int           // else, as how-manieth flight it takes off when it has a connection
	after   time.Duration // else, when it takes off
}

// idle reports whether there is nothing to do.
func (d departure) idle() bool { return d.batch == nil && d.connect == 0 && d.after == 0 }

// takeOff returns c as the calls of a flight that begins whatever others are under way.
func (b *batcher) takeOff(c *call) departure {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flights++
	return departure{batch: []*call{c}}
}

// board puts c into the queue, and returns the departure of another flight if there may be one.
func (b *batcher) board(c *call) departure {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	c.since = now
	most := b.most()
	free := b.flights+b.pending < most
	if free && b.flights < b.ready && len(b.queue) == 0 && b.gap(most, now) <= 0 {
		b.flights++
		b.last = now
		return departure{batch: []*call{c}}
	}
	b.queue = append(b.queue, c)
	if !b.timed {
		b.time(b.limit)
	}
	if !free {
		return departure{}
	}
	return b.depart(most, now)
}

// land ends a flight and returns the departure of the next, for those who wait.
func (b *batcher) land() departure {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flights--
	most := b.most()
	if len(b.queue) == 0 || b.flights+b.pending >= most {
		return departure{}
	}
	return b.depart(most, time.Now())
}

// depart returns the departure of another flight for those who wait. b.mu is held.
func (b *batcher) depart(most int, now time.Time) departure {
	if b.flights >= b.ready {
		if b.doubt || !b.spare() {
			return departure{connect: b.connect()}
		}
		b.ready = b.flights + 1
	}
	if gap := b.gap(most, now); gap > 0 && len(b.queue) < maxBatch {
		if b.paced { // they go with that one
			return departure{}
		}
		b.paced = true
		b.pending++
		return departure{after: gap}
	}
	return departure{batch: b.take()}
}

// gap is how long to wait with another flight where the server is far: else the first few of many decisions
// that come at once would have all flights, each its own. b.mu is held.
func (b *batcher) gap(most int, now time.Time) time.Duration {
	if b.flights == 0 || most <= minFlights {
		return 0
	}
	return fullBatch - now.Sub(b.last)
}

// connect begins the wait for a connection, of a flight beyond those under way and about to be. b.mu is held.
func (b *batcher) connect() int {
	b.pending++
	return b.flights + b.pending
}

// connected ends the wait for a connection, that of the n-th flight.
func (b *batcher) connected(n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending--
	if lost(err) {
		return
	}
	b.doubt = false
	if b.ready < n {
		b.ready++
	}
}

// waited ends the wait for the gap between flights.
func (b *batcher) waited() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending--
	b.paced = false
}

// begin begins a flight for those who wait, if any.
func (b *batcher) begin() departure {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return departure{}
	}
	return departure{batch: b.take()}
}

// take takes the calls of a flight that begins from the queue, which is not empty. b.mu is held.
func (b *batcher) take() []*call {
	b.flights++
	b.last = time.Now()
	n := min(len(b.queue), maxBatch)
	batch := b.queue[:n:n]
	if b.queue = b.queue[n:]; len(b.queue) == 0 {
		b.queue = nil // the batch keeps the array
	}
	return batch
}

// overdue takes from the queue the calls that have waited for too long. Where no flight is under way that
// they could have waited for, they are stranded: there is no connection.
func (b *batcher) overdue() (late []*call, stranded bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timed = false
	n, now := 0, time.Now()
	for n < len(b.queue) && now.Sub(b.queue[n].since) >= b.limit {
		n++
	}
	late, b.queue = b.queue[:n:n], b.queue[n:]
	if len(b.queue) > 0 {
		b.time(b.limit - now.Sub(b.queue[0].since))
	}
	return late, b.flights == 0
}

// time has expire called after d. b.mu is held.
func (b *batcher) time(d time.Duration) {
	b.timed = true
	if b.timer == nil {
		b.timer = time.AfterFunc(d, b.expire)
		return
	}
	b.timer.Reset(d)
}

// flown notes what became of a flight.
func (b *batcher) flown(took time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doubt = lost(err)
	if b.doubt {
		b.ready = 0 // its connection is gone, and others may be
		return
	}
	b.ready = max(b.ready, 1)
	b.took = took
	b.trip.note(took, time.Now())
}

// lately is how long the last flight took.
func (b *batcher) lately() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.took
}

// lone returns how-manieth flight one is whatever others are under way, if it needs a connection first: 0 if
// there is one.
func (b *batcher) lone() (connect int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flights < b.ready {
		return 0
	}
	return b.connect()
}

// most is how many flights may be under way. b.mu is held.
func (b *batcher) most() int {
	return max(1, min(b.room, b.trip.flights()))
}
