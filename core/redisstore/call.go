package redisstore

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// call is one decision on its way to Redis and back.
type call struct {
	member
	others []member  // that are decided together with it
	since  time.Time // when its caller began to wait

	state  atomic.Uint32 // waiting, sent or left
	itself [1]*call      // a batch of this call
	own    bool          // its caller sends it, and waits for nobody
	kept   bool          // somebody may look at it after it is answered

	// Set before done gets a value, read after.
	outcome
	completed bool // with its flight, which was the last to know of it
	done      chan struct{}
}

// member is one request of a call.
type member struct {
	key       string // as Redis knows it
	request   store.Request
	calendars string // the periods that were last sent for it: see bucket.Plan.Calendars
}

// callPool holds calls that nobody knows of. A call and its channel are half of what a decision would allocate.
type callPool struct{ free sync.Pool }

// get returns a call for r.
func (p *callPool) get(key string, r store.Request) *call {
	c, _ := p.free.Get().(*call)
	if c == nil {
		c = &call{done: make(chan struct{}, 1)}
	}
	c.key, c.request = key, r
	return c
}

// put takes c back, whose caller has the answer, if nobody else knows of c.
func (p *callPool) put(c *call) {
	if !c.kept && (c.own || c.completed) {
		*c = call{done: c.done}
		p.free.Put(c)
	}
}

// deadline is when c's caller has waited for the store's timeout.
func (c *call) deadline(timeout time.Duration) time.Time { return c.since.Add(timeout) }

// alone returns the batch of c alone.
func (c *call) single() []*call {
	c.itself[0] = c
	return c.itself[:]
}

// The states of a call. It is sent only from waiting, so a caller who left the queue pays nothing.
const (
	waiting uint32 = iota
	sent
	left
)

// claim moves those of calls that still wait to a state, and returns them. Nobody else sends or answers them then.
func claim(calls []*call, state uint32) []*call {
	still := calls[:0]
	for _, c := range calls {
		if c.state.CompareAndSwap(waiting, state) {
			still = append(still, c)
		}
	}
	return still
}

// outcome is the answer to one call.
type outcome struct {
	answer store.Answer        // to its request, or to the first of several
	joint  []store.JointAnswer // to each of the requests that are decided together; nil if there is one
	err    error               // why there is no answer to any
}

// finish answers calls with their outcomes, or all with err if there are none.
func finish(calls []*call, outcomes []outcome, err error) {
	for i, c := range calls {
		o := outcomeOf(i, outcomes, err)
		c.outcome = o
		if !c.own {
			c.done <- struct{}{}
		}
	}
}

// outcomeOf is the outcome of the i-th of calls.
func outcomeOf(i int, outcomes []outcome, err error) outcome {
	if outcomes == nil {
		return outcome{err: err}
	}
	return outcomes[i]
}

// maxBatch bounds how long one flight keeps the server from others, at some 2 µs a usual decision.
const maxBatch = 512

// slowness is how many usual decisions take the server as long as one that is not usual does, or as one of several that are
// decided together, which takes two passes.
const slowness = 16

// usual reports whether c does nothing but take tokens of one bucket, whose limits count requests.
func (c *call) usual() bool {
	r := &c.request
	return c.others == nil && r.Action == bucket.Take && r.Plan.Plain && r.Each == nil && !r.Dry && r.Ends.Ticket == 0
}

// weight is how many usual decisions take the server as long as c.
func (c *call) weight() int {
	if c.usual() {
		return 1
	}
	weight := slowness * (1 + len(c.others))
	if ends := c.request.EndsToo; ends != nil {
		weight += len(*ends)
	}
	return weight
}

// batchOf returns how many of calls, the first ones, go together, and their weight: at least one, and no more than weigh
// maxBatch.
func batchOf(calls []*call) (n, weight int) {
	n, weight = 1, calls[0].weight()
	for n < len(calls) {
		more := calls[n].weight()
		if weight+more > maxBatch {
			break
		}
		n, weight = n+1, weight+more
	}
	return n, weight
}

// alike reports whether a and b ask the same of one bucket, so that the script can decide them together.
func alike(a, b *call) bool { return sameTake(a, b) && a.request.N > 0 && a.key == b.key }

// sameTake reports whether a and b take as much under the same limits, perhaps from two buckets.
func sameTake(a, b *call) bool {
	x, y := &a.request, &b.request
	return x.N == y.N && x.Plan == y.Plan && a.usual() && b.usual()
}

// run returns how many calls are alike from the first on.
func run(calls []*call) int {
	n := 1
	for n < len(calls) && alike(calls[0], calls[n]) {
		n++
	}
	return n
}

// keySeed is for gather.
var keySeed = maphash.MakeSeed()

// gather returns calls with those that are alike next to each other, and which place each had. It finds most of them: two
// keys of one hash can hide others. If they stand well already, it returns calls and nil.
func gather(calls []*call) (sorted []*call, places []int) {
	if len(calls) < 3 {
		return calls, nil
	}
	var latest [2 * maxBatch]uint16 // by a hash of the key: one more than the place of the first call of a run
	var firsts [maxBatch]uint16     // the place of the first call that each is alike
	var sizes [maxBatch]uint16      // of the run that begins at each
	apart := false
	for i, c := range calls {
		slot := &latest[maphash.String(keySeed, c.key)%uint64(len(latest))]
		if *slot == 0 || !alike(calls[*slot-1], c) {
			*slot = uint16(i + 1)
		}
		first := *slot - 1
		firsts[i] = first
		sizes[first]++
		apart = apart || int(first) < i && firsts[i-1] != first
	}
	if !apart {
		return calls, nil
	}
	var next [maxBatch]uint16 // where the next call of a run goes
	place := uint16(0)
	for i := range calls {
		next[i] = place
		place += sizes[i]
	}
	sorted, places = make([]*call, len(calls)), make([]int, len(calls))
	for i, c := range calls {
		to := &next[firsts[i]]
		sorted[*to], places[*to] = c, i
		*to++
	}
	return sorted, places
}

// restored returns outcomes in the order that calls had before gather.
func restored(outcomes []outcome, places []int) []outcome {
	if places == nil {
		return outcomes
	}
	list := make([]outcome, len(outcomes))
	for i, place := range places {
		list[place] = outcomes[i]
	}
	return list
}
