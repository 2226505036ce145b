package redisstore

import (
	"slices"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/rtt"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/scheduler"
)

// queue groups the calls to one server into batches, and decides when a batch
// is sent. A call that comes while nothing is queued and fewer than batchLimit
// batches are in flight is sent at once. Other calls wait until a batch in
// flight completes, and then form one batch, so batches grow with the load.
// Example: at a round trip of 0.4 ms four batches in flight are at most 10,000 a
// second. At 1,000 requests a second most have one call; at 100,000 about 10.
//
// The queue does no I/O. Its methods return a task, which their caller
// performs: see node.perform.
type queue struct {
	maxInFlight int           // the most batches in flight, whatever the round trip
	timeout     time.Duration // how long a call may be queued if the server does not answer
	longestWait time.Duration // how long a call may be queued while the server answers others

	// expire is called when the first call may have been queued for too long.
	expire func()
	// hasIdle is server.hasIdle.
	hasIdle func() bool

	mu         sync.Mutex // guards all below; never held across I/O
	calls      []*call    // the queued calls, in the order of their arrival
	capacity   int        // of the next slice of calls: the size of the last batch, up to 64
	inFlight   int        // batches in flight
	weight     int        // sum of the weights of the batches in flight
	turns      []turn     // of the batches in flight, in the order of their sending
	lastNumber uint64     // the number of the last batch
	lastSent   time.Time  // when the last batch was sent
	pending    int        // tasks that wait, for a connection or for the gap between batches, before they send a batch
	gapPending bool       // one of them waits for the gap
	ready      int        // so many batches can be in flight without waiting for a connection
	reconnect  bool       // a connection was lost, and none was made since
	silent     bool       // the last batch that ended had no answer
	lastUsed   time.Time  // when a call last came
	roundTrip  rtt.RoundTrip
	timer      *time.Timer // calls expire; nil until it is first needed
	timerSet   bool        // the timer is running
}

// turn says from when on the server works on a batch in flight: it answers
// batches in their order, so this is when it last answered an earlier one.
type turn struct {
	number uint64    // of the batch
	since  time.Time // zero: no earlier batch was answered since this one was sent
}

// task is what a goroutine does for the queue. One of batch, connect and after
// is set: send a batch, or wait and then ask the queue for one. The zero task
// is nothing to do.
type task struct {
	batch  []*call // send these
	number uint64  // of the batch: later batches have higher ones
	weight int     // of the batch
	load   int     // weight of the batch and of all that were in flight when it was sent

	connect int           // wait for a connection, and call connected with this number: 3 means that it is for a third batch in flight
	after   time.Duration // wait for this time, and call waited
}

// idle reports whether there is nothing to do.
func (d task) idle() bool { return d.batch == nil && d.connect == 0 && d.after == 0 }

// add enqueues c. It returns a task if another batch may be sent, and otherwise
// the zero task.
func (q *queue) add(c *call) task {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.lastUsed = now
	if c.since.IsZero() { // a call from another node's queue keeps its time
		c.since = now
	}
	free := q.inFlight+q.pending < q.batchLimit()
	if free && q.inFlight < q.ready && len(q.calls) == 0 && q.gap(now) <= 0 {
		// Nothing is queued and a connection is ready: c is a batch of its own.
		q.lastSent = now
		return q.startBatch(c.single(), c.weight())
	}
	if q.calls == nil {
		q.calls = make([]*call, 0, q.capacity)
	}
	q.calls = append(q.calls, c)
	if !q.timerSet {
		q.setTimer(q.timeout)
	}
	if !free {
		return task{}
	}
	return q.nextTask(now)
}

// startTrial returns the task to send c alone, as the breaker's trial, however
// many batches are in flight.
func (q *queue) startTrial(c *call) task {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.startBatch(c.single(), c.weight())
}

// completed counts a task's batch as no longer in flight, and returns the task
// to send the next batch, if calls are queued.
func (q *queue) completed(d task) task {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight--
	q.weight -= d.weight
	q.turns = slices.DeleteFunc(q.turns, func(t turn) bool { return t.number == d.number })
	if len(q.calls) == 0 || q.inFlight+q.pending >= q.batchLimit() {
		return task{}
	}
	return q.nextTask(time.Now())
}

// nextTask returns the task to send queued calls, or to wait first. It returns
// the zero task if another task that waits for the gap will send them. q.mu is
// held.
func (q *queue) nextTask(now time.Time) task {
	if q.inFlight >= q.ready {
		if q.reconnect || !q.hasIdle() {
			return task{connect: q.connect()}
		}
		q.ready = q.inFlight + 1
	}
	if gap := q.gap(now); gap > 0 && len(q.calls) < maxBatch {
		if q.gapPending {
			return task{}
		}
		q.gapPending = true
		q.pending++
		return task{after: gap}
	}
	return q.startQueued()
}

// startBatch counts a batch as in flight and returns the task to send it. q.mu
// is held.
func (q *queue) startBatch(batch []*call, weight int) task {
	q.inFlight++
	q.weight += weight
	q.lastNumber++
	q.turns = append(q.turns, turn{number: q.lastNumber})
	return task{batch: batch, number: q.lastNumber, weight: weight, load: q.weight}
}

// startQueued takes a batch from the queue, if calls are queued, and returns
// the task to send it. The timeout of its calls begins now, or if the server is
// silent, it began with their arrival. q.mu is held.
func (q *queue) startQueued() task {
	if len(q.calls) == 0 {
		return task{}
	}
	q.lastSent = time.Now()
	n, weight := batchOf(q.calls)
	batch := q.calls[:n:n]
	if q.calls = q.calls[n:]; len(q.calls) == 0 {
		q.calls, q.capacity = nil, min(n, maxBatch/8) // the batch keeps the array
	}
	for _, c := range batch {
		if !q.silent {
			c.since = q.lastSent
		}
	}
	return q.startBatch(batch, weight)
}

// batchLimit is how many batches may be in flight. q.mu is held.
func (q *queue) batchLimit() int { return max(1, min(q.maxInFlight, q.roundTrip.InFlight())) }

// gap is how long to wait before another batch is sent to a server with high
// latency; 0 or less: not at all. Example with a round trip of 50 ms: 300 calls
// come within 2 ms. The first is sent, and 2 ms later the others together.
// Without the gap 25 would be a batch each, and the rest would wait for 50 ms.
// q.mu is held.
func (q *queue) gap(now time.Time) time.Duration {
	if q.inFlight == 0 || !q.roundTrip.HighLatency() {
		return 0
	}
	return rtt.FullBatch - now.Sub(q.lastSent)
}

// waited ends the wait for the gap, and returns the task to send a batch.
func (q *queue) waited() task {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending--
	q.gapPending = false
	return q.startQueued()
}

// connect begins a wait for a connection. It returns which batch in flight the
// connection is for: with two in flight and none pending, the third. q.mu is
// held.
func (q *queue) connect() (nth int) {
	q.pending++
	return q.inFlight + q.pending
}

// connectTrial is connect for the breaker's trial. It returns 0 if a connection
// is ready.
func (q *queue) connectTrial() (nth int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inFlight < q.ready {
		return 0
	}
	return q.connect()
}

// connected ends the wait for the connection of the nth batch in flight, and
// returns the task to send a batch, also without a connection: its error says
// why.
func (q *queue) connected(nth int, err error) task {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.noteConnected(nth, err)
	return q.startQueued()
}

// trialConnected is connected for the breaker's trial, which startTrial sends.
func (q *queue) trialConnected(nth int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.noteConnected(nth, err)
}

// noteConnected requires that q.mu is held.
func (q *queue) noteConnected(nth int, err error) {
	q.pending--
	if lost(err) {
		return
	}
	q.reconnect = false
	if q.ready < nth {
		q.ready++
	}
}

// note learns from the result of a batch: took is how long it was in flight,
// err why all its calls failed.
func (q *queue) note(d task, took time.Duration, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reconnect, q.silent = lost(err), lost(err)
	if q.silent {
		q.ready = 0 // its connection is lost, and others may be lost too
		if len(q.calls) > 0 {
			q.setTimer(max(0, q.timeout-time.Since(q.calls[0].since)))
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
	q.roundTrip.Note(took, time.Duration(d.load)*rtt.BusyBatch/maxBatch, now)
}

// turn returns from when on the server works on the batch of d: see type turn.
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

// markUsed is for a call that does not go through the queue: unused returns
// false for a while.
func (q *queue) markUsed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastUsed = time.Now()
}

// unused reports whether no call is queued or in flight, and none has come for
// the given time.
func (q *queue) unused(while time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.calls) == 0 && q.inFlight == 0 && q.pending == 0 && time.Since(q.lastUsed) > while
}

// setTimer has expire called after d, less the time that expire spends in
// scheduler.KeepUp. q.mu is held.
func (q *queue) setTimer(d time.Duration) {
	d -= scheduler.FastTurn
	q.timerSet = true
	if q.timer == nil {
		q.timer = time.AfterFunc(d, q.expire)
		return
	}
	q.timer.Reset(d)
}

// reason says why calls were queued for too long.
type reason int

const (
	unanswered   reason = iota // the server does not answer the batches in flight
	noConnection               // no batch is in flight, because there is no connection
	queueTimeout               // the server answers batches, but too slowly for so many calls
)

// overdue removes and returns the calls that have been queued for waitLimit,
// with the reason. It sets the timer for the next call.
func (q *queue) overdue() (late []*call, why reason) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timerSet = false
	limit, why := q.waitLimit()
	n, now := 0, time.Now()
	for n < len(q.calls) && now.Sub(q.calls[n].since) >= limit {
		n++
	}
	late, q.calls = q.calls[:n:n], q.calls[n:]
	if len(q.calls) > 0 { // after the timeout at the latest, because waitLimit is shorter once the server is silent
		q.setTimer(min(q.timeout, limit-now.Sub(q.calls[0].since)))
	}
	return late, why
}

// hasLate reports whether overdue will return calls, if the caller calls
// scheduler.KeepUp before it, which takes at least FastTurn.
func (q *queue) hasLate() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit, _ := q.waitLimit()
	return len(q.calls) > 0 && time.Since(q.calls[0].since) >= limit-scheduler.FastTurn
}

// waitLimit returns how long a call may be queued, and the reason if it is
// queued for longer. With a timeout of 100 ms that is 1 s while the server
// answers, and otherwise 100 ms. q.mu is held.
func (q *queue) waitLimit() (time.Duration, reason) {
	switch {
	case q.inFlight == 0:
		return q.timeout, noConnection
	case q.silent:
		return q.timeout, unanswered
	}
	return q.longestWait, queueTimeout
}
