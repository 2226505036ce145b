package redisstore

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// call is one decision from the queue to its outcome: of one request, or of several that are decided together.
//
// A call is in one state: waiting, then either sent, by the goroutine that sends its batch, or abandoned, by its caller or a timeout.
// Whoever moves it out of waiting, by claim or CompareAndSwap, is the only one who sends or answers it.
type call struct {
	member
	others []member  // the other requests of a joint decision
	since  time.Time // when its timeout begins: with its arrival, and again when its batch is sent

	state  atomic.Uint32 // waiting, sent or abandoned
	itself [1]*call      // space for a batch of this call alone
	inline bool          // its caller sends it, so nobody waits for done
	shared bool          // other goroutines may use it after its answer, so it is not pooled

	// Written before done is signalled, and read after.
	outcome
	released bool // the goroutine that sent its batch, the last to use it, is done with it
	done     chan struct{}
}

// member is one request of a call.
type member struct {
	key       string // the key in Redis
	request   store.Request
	calendars string // the periods that were last sent for it: see bucket.Plan.Calendars
}

// callPool reuses calls. A call and its channel are half of what a decision would allocate.
type callPool struct{ free sync.Pool }

// get returns a call for r, in the state waiting.
func (p *callPool) get(key string, r store.Request) *call {
	c, _ := p.free.Get().(*call)
	if c == nil {
		c = &call{done: make(chan struct{}, 1)}
	}
	c.key, c.request = key, r
	return c
}

// put takes c back after its caller has copied the outcome, unless another goroutine may still use c.
func (p *callPool) put(c *call) {
	if !c.shared && (c.inline || c.released) {
		*c = call{done: c.done}
		p.free.Put(c)
	}
}

// deadline returns when c's timeout ends.
func (c *call) deadline(timeout time.Duration) time.Time { return c.since.Add(timeout) }

// single returns a batch of c alone, without an allocation.
func (c *call) single() []*call {
	c.itself[0] = c
	return c.itself[:]
}

// The states of a call. Only a waiting call is sent, so a caller who stopped waiting in the queue is not charged.
const (
	waiting uint32 = iota
	sent
	abandoned
)

// claim moves the waiting ones of calls to a state and returns them, in the array of calls. Their sending or answering is then
// up to the caller of claim.
func claim(calls []*call, state uint32) []*call {
	still := calls[:0]
	for _, c := range calls {
		if c.state.CompareAndSwap(waiting, state) {
			still = append(still, c)
		}
	}
	return still
}

// outcome is the result of one call.
type outcome struct {
	answer store.Answer        // to its request
	joint  []store.JointAnswer // to each request of a joint decision; nil if there is one request
	err    error               // why there is no answer
}

// finish gives calls their outcomes, or err if outcomes is nil, and wakes their callers.
func finish(calls []*call, outcomes []outcome, err error) {
	for i, c := range calls {
		o := outcomeOf(i, outcomes, err)
		c.outcome = o
		if !c.inline {
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

// maxBatch is the largest weight of a batch. A usual decision takes the server about 2 µs, so a batch keeps it from other
// clients for about 1 ms.
const maxBatch = 512

// unusualWeight is the weight of a request that is not usual, and of each request of a joint decision, which is decided twice:
// without taking, then with.
const unusualWeight = 16

// usual reports whether c is a request that the script's fast path can decide: see usual.lua. It takes tokens of one bucket,
// whose limits all count requests, and does nothing else.
func (c *call) usual() bool {
	r := &c.request
	return c.others == nil && r.Action == bucket.Take && r.Plan.Simple && r.Each == nil && !r.Dry && r.Ends.Ticket == 0
}

// weight is the cost of c to the server, in usual decisions. Example: a joint decision of three requests has the weight 48.
func (c *call) weight() int {
	if c.usual() {
		return 1
	}
	weight := unusualWeight * (1 + len(c.others))
	if ends := c.request.EndsToo; ends != nil {
		weight += len(*ends)
	}
	return weight
}

// batchOf returns how many of calls, from the first on, are the next batch, and their weight. It is at least one call, and more
// only up to the weight maxBatch.
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

// alike reports whether a and b take the same number of tokens from one bucket. The script then decides both by one request.
func alike(a, b *call) bool { return sameTake(a, b) && a.request.N > 0 && a.key == b.key }

// sameTake reports whether a and b take as many tokens under the same limits, perhaps from different buckets.
func sameTake(a, b *call) bool {
	x, y := &a.request, &b.request
	return x.N == y.N && x.Plan == y.Plan && a.usual() && b.usual()
}

// run returns how many calls at the beginning of calls are alike.
func run(calls []*call) int {
	n := 1
	for n < len(calls) && alike(calls[0], calls[n]) {
		n++
	}
	return n
}

// keySeed is the seed of the hashes in groupAlike.
var keySeed = maphash.MakeSeed()

// groupAlike returns calls with those that are alike next to each other, and the index that each had. It may miss some, because
// two keys can have one hash. If nothing moves, it returns calls and nil.
//
// Example, with a letter for the key: A B A C B becomes A A B B C, and places is 0 2 1 4 3.
func groupAlike(calls []*call) (sorted []*call, places []int) {
	if len(calls) < 3 {
		return calls, nil
	}
	var latest [2 * maxBatch]uint16 // by a hash of the key: one more than the index of the last group's first call
	var firsts [maxBatch]uint16     // for each call, the index of its group's first call
	var sizes [maxBatch]uint16      // for each first call, how many calls its group has
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
	// A counting sort: each group gets as many places as it has calls, in the order of the groups' first calls.
	var next [maxBatch]uint16 // for each first call, the place of its group's next call
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

// ungroup returns outcomes in the order that calls had before groupAlike.
func ungroup(outcomes []outcome, places []int) []outcome {
	if places == nil {
		return outcomes
	}
	list := make([]outcome, len(outcomes))
	for i, place := range places {
		list[place] = outcomes[i]
	}
	return list
}
