package redisstore

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// call is one decision from the queue to its outcome: of one request, or of
// several that are decided together.
//
// A call is waiting until it is sent with its batch, or abandoned by its caller
// or a timeout. Only one goroutine can change the state, and only that one sends
// the call or answers it. So an abandoned call charges nothing.
type call struct {
	member
	others []member  // the other requests of a joint decision
	since  time.Time // when its timeout began: at its arrival, or later when its batch was sent

	state  atomic.Uint32 // waiting, sent or abandoned
	itself [1]*call      // space for a batch of this call alone: see single

	// inline: its caller's goroutine sends it. done is not signalled then.
	inline bool
	// trial: it is the breaker's trial. It is not reused, because the timer of
	// node.trial may use it after its answer.
	trial bool
	// kept: it has failed, and what should be sent later was kept.
	kept bool

	// Written before done is signalled, and read after.
	*outcome
	released bool // the goroutine that sent its batch no longer uses it
	done     chan struct{}
}

// member is one request of a call.
type member struct {
	key     string // the key in Redis
	request store.Request
}

// members returns c's requests, the first one too.
func (c *call) members() iter.Seq[*member] {
	return func(yield func(*member) bool) {
		more := yield(&c.member)
		for i := 0; more && i < len(c.others); i++ {
			more = yield(&c.others[i])
		}
	}
}

// holders returns c's requests if any of them may begin a hold or reserve
// tokens; else nil. They are clones, because the caller may reuse the memory of
// the keys once it has an error.
func (c *call) holders() (list []member) {
	holds := false
	for m := range c.members() {
		holds = holds || m.request.Holds() || m.request.Action == bucket.Reserve
		list = append(list, member{key: m.key, request: m.request.Clone()})
	}
	if !holds {
		return nil
	}
	return list
}

// callPool reuses calls, which with their channels are half of what a decision
// allocates.
type callPool struct{ free sync.Pool }

// get returns a call for r, in the state waiting.
func (p *callPool) get(key string, r *store.Request) *call {
	c, _ := p.free.Get().(*call)
	if c == nil {
		c = &call{done: make(chan struct{}, 1)}
	}
	c.key, c.request = key, *r
	return c
}

// put takes c back, unless another goroutine may still use it.
func (p *callPool) put(c *call) {
	if c.inline || c.released && !c.trial {
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

// The states of a call.
const (
	waiting uint32 = iota
	sent
	abandoned
)

// claim sets the state of those calls that are waiting, and returns them, in
// the array of calls. Its caller must send or answer them.
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
	answer store.Answer   // to its request
	joint  []store.Answer // to each request of a joint decision; nil if there is one request
	err    error          // why there is no answer
}

// failed returns the outcomes of n calls that failed with err.
func failed(n int, err error) []outcome { return slices.Repeat([]outcome{{err: err}}, n) }

// maxBatch is the largest weight of a batch. A call of weight 1 takes the
// server about 2 µs, so a batch blocks the server for about 1 ms.
const maxBatch = 512

// slowWeight is the weight of a request that the full script decides.
const slowWeight = 16

// plain reports whether the plain script decides c.
func (c *call) plain() bool { return c.others == nil && c.request.Plain() }

// weight is the server's work on c: 1 for the plain script, about 2 µs.
// Example: a joint decision of three requests has the weight 3 × 16 = 48.
func (c *call) weight() int {
	if c.plain() {
		return 1
	}
	return slowWeight * (1 + len(c.others))
}

// batchOf returns how many of calls form the next batch, as many as maxBatch
// allows and at least one, and their weight.
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
