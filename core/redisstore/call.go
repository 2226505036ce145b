package redisstore

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// call is one decision from its caller to its outcome: of one request, or of
// several that are decided together.
//
// A call is waiting until it is sent with its batch, or abandoned by its caller
// or a timeout. Only one goroutine can change the state, and only that one sends
// the call or answers it. So an abandoned call charges nothing.
type call struct {
	member
	others []member  // the other requests of a joint decision
	since  time.Time // when it came
	state  atomic.Uint32
	trial  bool     // it is the breaker's trial, whose timer may use it later: so it is not reused
	itself [1]*call // see single
	alone  single   // space for the batch of this call alone

	outcome outcome // whoever sends or answers c writes it
	done    chan struct{}
}

// The states of a call.
const (
	waiting uint32 = iota
	sent
	abandoned
)

// member is one request of a call.
type member struct {
	key     string // the key in Redis
	request store.Request
}

// outcome is the result of one call.
type outcome struct {
	answer store.Answer   // to its request
	joint  []store.Answer // to each request of a joint decision; nil if there is one request
	err    error          // why there is no answer
}

// finish wakes c's caller, who reads the outcome. Nobody else may use c then.
func (c *call) finish() { c.done <- struct{}{} }

// fail answers c with an error.
func (c *call) fail(err error) {
	c.outcome = outcome{err: err}
	c.finish()
}

// single returns a batch of c alone, without an allocation.
func (c *call) single() []*call {
	c.itself[0] = c
	return c.itself[:]
}

// claim makes those calls that are waiting sent ones, and returns them, in the
// array of calls. Its caller must send or answer them.
func claim(calls []*call) []*call {
	still := calls[:0]
	for _, c := range calls {
		if c.state.CompareAndSwap(waiting, sent) {
			still = append(still, c)
		}
	}
	return still
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

// put takes c back.
func (p *callPool) put(c *call) {
	if !c.trial {
		*c = call{done: c.done}
		p.free.Put(c)
	}
}
