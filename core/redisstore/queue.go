package redisstore

import (
	"slices"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/rtt"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/scheduler"
)

// queue gathers the decisions that wait for a flight: one script call, or pipeline, that carries many of them. Decisions
// that come while all flights are under way go together with the next. So the busier a store, the more of them share one
// call, its round trip, its TIME and its command. A decision that comes alone goes at once.
type queue struct {
	maxInFlight int           // the most flights at once, however far the server is
	timeout     time.Duration // how long a caller may wait if the server does not answer
	longestWait time.Duration // how long a caller may wait for others while it does

	// expire is called when the head of the queue may have waited for too long.
	expire func()
	// spare reports whether the client has a connection that nobody uses.
	spare func() bool

	mu       sync.Mutex // guards all below; never held across I/O
	calls    []*call    // in the order of their coming
	size     int        // how many may come next: as many as last time
	inFlight int        // under way
	weight   int        // of their calls
	turns    []turn     // theirs, in the order of their departures
	taken    uint64     // how many ever were
	last     time.Time  // when one of them took off
	pending  int        // flights that will take off when they have a connection, or when last is some way off
	spaced   bool       // one of them waits for the latter
	ready    int        // how many flights at once are known to find a connection each
	doubt    bool       // a connection was lost, and none made since
	silent   bool       // a flight had no answer, and none had one since
	used     time.Time  // when a call last came
	trip     rtt.RoundTrip
	timer    *time.Timer // of expire; nil until it is first needed
	timed    bool        // the timer is running
}

// turn is when the server last answered a flight that departed before this one. It answers them in the order of their coming,
// so until then this one waits for others of this process.
type turn struct {
	number uint64
	since  time.Time
}

// departure is what a goroutine is to do for the queue. The zero one is nothing.
type task struct {
	batch   []*call       // send these now
	number  uint64        // its number: later ones have higher
	weight  int           // of the batch
	load    int           // weight of the batch and of all that were under way when it departed
	connect int           // else take off with a connection, as the connect-th flight
	after   time.Duration // else take off after this time
}

// idle reports whether there is nothing to do.
func (d task) idle() bool { return d.batch == nil && d.connect == 0 && d.after == 0 }

// add puts c into the queue, and returns the departure of another flight if there may be one.
func (q *queue) add(c *call) task {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.used = now
	if c.since.IsZero() { // else it comes from another node's queue
		c.since = now
	}
	free := q.inFlight+q.pending < q.most()
	if free && q.inFlight < q.ready && len(q.calls) == 0 && q.gap(now) <= 0 {
		// Nobody waits and a connection is ready: c goes alone, without a place in the queue.
		q.last = now
		return q.take(c.single(), c.weight())
	}
	if q.calls == nil {
		q.calls = make([]*call, 0, q.size)
	}
	q.calls = append(q.calls, c)
	if !q.timed {
		q.time(q.timeout)
	}
	if !free {
		return task{}
	}
	return q.next(now)
}

// alone returns the departure of a flight for c that begins whatever others are under way.
func (q *queue) single(c *call) task {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.take(c.single(), c.weight())
}

// landed ends the flight of a departure and returns the departure of the next, for those who wait.
func (q *queue) completed(d task) task {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight--
	q.weight -= d.weight
	q.turns = slices.DeleteFunc(q.turns, func(t turn) bool { return t.number == d.number })
	if len(q.calls) == 0 || q.inFlight+q.pending >= q.most() {
		return task{}
	}
	return q.next(time.Now())
}

// begin begins a flight for those who wait, if any do. q.mu is held.
func (q *queue) begin() task {
	if len(q.calls) == 0 {
		return task{}
	}
	return q.takeWaiting()
}

// depart returns the departure of another flight for those who wait. q.mu is held.
func (q *queue) next(now time.Time) task {
	if q.inFlight >= q.ready {
		if q.doubt || !q.spare() {
			return task{connect: q.connect()}
		}
		q.ready = q.inFlight + 1
	}
	if gap := q.gap(now); gap > 0 && len(q.calls) < maxBatch {
		if q.spaced { // they go with the flight that waits for the gap already
			return task{}
		}
		q.spaced = true
		q.pending++
		return task{after: gap}
	}
	return q.takeWaiting()
}

// take begins a flight with a batch. q.mu is held.
func (q *queue) take(batch []*call, weight int) task {
	q.inFlight++
	q.weight += weight
	q.taken++
	q.turns = append(q.turns, turn{number: q.taken})
	return task{batch: batch, number: q.taken, weight: weight, load: q.weight}
}

// takeWaiting begins a flight with calls from the queue, which is not empty. Unless the server is silent, a call that waited
// for others has the whole timeout from now on. q.mu is held.
func (q *queue) takeWaiting() task {
	q.last = time.Now()
	n, weight := batchOf(q.calls)
	batch := q.calls[:n:n]
	if q.calls = q.calls[n:]; len(q.calls) == 0 {
		q.calls, q.size = nil, min(n, maxBatch/8) // the batch keeps the array
	}
	for _, c := range batch {
		if !q.silent {
			c.since = q.last
		}
	}
	return q.take(batch, weight)
}

// most is how many flights may be under way. q.mu is held.
func (q *queue) most() int { return max(1, min(q.maxInFlight, q.trip.InFlight())) }

// gap is how long to wait before another flight to a distant server. Without it, of many decisions that come at once
// the first few would take all flights, each for itself. q.mu is held.
func (q *queue) gap(now time.Time) time.Duration {
	if q.inFlight == 0 || !q.trip.HighLatency() {
		return 0
	}
	return rtt.FullBatch - now.Sub(q.last)
}

// waited ends the wait for the gap between flights, and begins the flight.
func (q *queue) waited() task {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending--
	q.spaced = false
	return q.begin()
}

// connect begins the wait for a connection, of a flight beyond those under way and pending. q.mu is held.
func (q *queue) connect() (nth int) {
	q.pending++
	return q.inFlight + q.pending
}

// connected ends the wait for a connection, that of the nth flight.
func (q *queue) connected(nth int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.connectionMade(nth, err)
}

// beginConnected is connected for a flight that begins now.
func (q *queue) beginConnected(nth int, err error) task {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.connectionMade(nth, err)
	return q.begin()
}

// connectionMade is connected. q.mu is held.
func (q *queue) connectionMade(nth int, err error) {
	q.pending--
	if lost(err) {
		return
	}
	q.doubt = false
	if q.ready < nth {
		q.ready++
	}
}

// connectFirst returns which flight one is that begins whatever others are under way, if it needs a connection first:
// 0 if there is one.
func (q *queue) connectFirst() (nth int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inFlight < q.ready {
		return 0
	}
	return q.connect()
}

// note takes in what became of a flight after so long.
func (q *queue) note(d task, took time.Duration, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.doubt, q.silent = lost(err), lost(err)
	if q.silent {
		q.ready = 0 // its connection is gone, and others may be
		if len(q.calls) > 0 {
			q.time(max(0, q.timeout-time.Since(q.calls[0].since)))
		}
		return
	}
	q.ready = max(q.ready, 1)
	now := time.Now()
	for i := range q.turns {
		if q.turns[i].number > d.number {
			q.turns[i].since = now
		}
	}
	q.trip.Note(took, time.Duration(d.load)*rtt.BusyBatch/maxBatch, now)
}

// turn returns when the server last answered a flight that departed before that of d; zero: it didn't since.
func (q *queue) turn(d task) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range q.turns {
		if t.number == d.number {
			return t.since
		}
	}
	return time.Time{}
}

// reason is why calls have waited for too long.
type reason int

const (
	unanswered   reason = iota // the server is silent
	noConnection               // there is no connection
	queueTimeout               // the server answers others
)

// overdue takes from the queue the calls that have waited for too long: for the timeout if the server is silent, or if there
// is no flight that they could have waited for.
func (q *queue) overdue() (late []*call, why reason) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timed = false
	limit, why := q.limit()
	n, now := 0, time.Now()
	for n < len(q.calls) && now.Sub(q.calls[n].since) >= limit {
		n++
	}
	late, q.calls = q.calls[:n:n], q.calls[n:]
	if len(q.calls) > 0 { // by then the server may be silent
		q.time(min(q.timeout, limit-now.Sub(q.calls[0].since)))
	}
	return late, why
}

// hasLate reports whether overdue would take calls after scheduler.KeepUp.
func (q *queue) hasLate() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit, _ := q.limit()
	return len(q.calls) > 0 && time.Since(q.calls[0].since) >= limit-scheduler.Swift
}

// limit is how long a call may wait in the queue, and why no longer. q.mu is held.
func (q *queue) limit() (time.Duration, reason) {
	switch {
	case q.inFlight == 0:
		return q.timeout, noConnection
	case q.silent:
		return q.timeout, unanswered
	}
	return q.longestWait, queueTimeout
}

// use notes that a call has come, which the queue does not see.
func (q *queue) use() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used = time.Now()
}

// unused reports whether no call is there, and none has come for a while.
func (q *queue) unused(while time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.calls) == 0 && q.inFlight == 0 && q.pending == 0 && time.Since(q.used) > while
}

// time has expire called after d, but for scheduler.KeepUp. q.mu is held.
func (q *queue) time(d time.Duration) {
	d -= scheduler.Swift
	q.timed = true
	if q.timer == nil {
		q.timer = time.AfterFunc(d, q.expire)
		return
	}
	q.timer.Reset(d)
}
