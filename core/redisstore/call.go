package redisstore

import (
	"hash/maphash"
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
	outcome
	released bool // the goroutine that sent its batch no longer uses it
	done     chan struct{}
}

// member is one request of a call.
type member struct {
	key       string // the key in Redis
	request   store.Request
	calendars string // what bucket.LimitSet.Calendars returned when it was last sent
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

// holders returns c's requests if any of them may begin a hold; else nil. They
// are clones, because the caller may reuse the memory of the keys once it has
// an error. The calendars stay with the goroutine that sends c, which may be
// writing them.
func (c *call) holders() (list []member) {
	holds := false
	for m := range c.members() {
		holds = holds || m.request.Holds()
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
func (p *callPool) get(key string, r store.Request) *call {
	c, _ := p.free.Get().(*call)
	if c == nil {
		c = &call{done: make(chan struct{}, 1)}
	}
	c.key, c.request = key, r
	return c
}

// put takes c back, unless another goroutine may still use it. The caller must
// have copied the outcome.
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
	answer store.Answer        // to its request
	joint  []store.JointAnswer // to each request of a joint decision; nil if there is one request
	err    error               // why there is no answer
}

// failed returns the outcomes of n calls that failed with err.
func failed(n int, err error) []outcome { return slices.Repeat([]outcome{{err: err}}, n) }

// maxBatch is the largest weight of a batch. A call of weight 1 takes the
// server about 2 µs, so a batch blocks the server for about 1 ms.
const maxBatch = 512

// slowWeight is the weight of a request that does not take the fast path, and of
// each request of a joint decision, which the script decides twice.
const slowWeight = 16

// fast reports whether fast_path.lua decides c by itself: it only takes tokens
// of one bucket, whose limits all count requests. Slots are decided by flags.lua,
// which is part of the same loop, and weigh more.
func (c *call) fast() bool {
	r := &c.request
	return c.others == nil && r.Action == bucket.Take && r.Set.Simple && r.Each == nil && !r.Dry && r.Ends.Ticket == 0
}

// weight is the server's work on c: 1 on the fast path, about 2 µs. Example:
// a joint decision of three requests has the weight 3 × 16 = 48.
func (c *call) weight() int {
	if c.fast() {
		return 1
	}
	weight := slowWeight * (1 + len(c.others))
	if ends := c.request.EndsToo; ends != nil {
		weight += len(*ends)
	}
	return weight
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

// alike reports whether a and b take the same number of tokens, above 0, from
// one bucket. Adjacent calls that are alike are sent as one request with a
// count.
func alike(a, b *call) bool { return sameTake(a, b) && a.request.N > 0 && a.key == b.key }

// sameTake reports whether a and b take the same number of tokens under the
// same limits, perhaps from different buckets. Adjacent calls like this are
// sent as one request with several keys.
func sameTake(a, b *call) bool {
	x, y := &a.request, &b.request
	return x.N == y.N && x.Set == y.Set && a.fast() && b.fast()
}

// run returns the length of the run at the beginning of calls: how many calls
// in a row are alike.
func run(calls []*call) int {
	n := 1
	for n < len(calls) && alike(calls[0], calls[n]) {
		n++
	}
	return n
}

// keySeed is the seed of the hashes in groupAlike.
var keySeed = maphash.MakeSeed()

// groupAlike sorts calls so that those that are alike are adjacent. places[i]
// is the index in calls of sorted[i]. If the order stays, it returns calls and
// nil. Some that are alike may stay apart, because two keys can have one hash.
//
// Example, with a letter for the key: A B A C B becomes A A B B C, and places
// is 0 2 1 4 3.
func groupAlike(calls []*call) (sorted []*call, places []int) {
	if len(calls) < 3 {
		return calls, nil
	}
	var latest [2 * maxBatch]uint16 // by the hash of a key: 1 + the index of the first call of the latest group with this hash
	var firsts [maxBatch]uint16     // for each call, the index of its group's first call
	var sizes [maxBatch]uint16      // at the index of a group's first call: how many calls the group has
	apart := false                  // a call stands apart from its group
	for i, c := range calls {
		place := &latest[maphash.String(keySeed, c.key)%uint64(len(latest))]
		if *place == 0 || !alike(calls[*place-1], c) {
			*place = uint16(i + 1)
		}
		first := *place - 1
		firsts[i] = first
		sizes[first]++
		apart = apart || int(first) < i && firsts[i-1] != first
	}
	if !apart {
		return calls, nil
	}
	// A counting sort: the groups follow one another in the order of their
	// first calls.
	var next [maxBatch]uint16 // at the index of a group's first call: where in sorted the group's next call goes
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

// ungroup returns outcomes, which are in the order of groupAlike, in the order
// that calls had before.
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
