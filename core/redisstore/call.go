package redisstore

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/percent"
)

// bucketOf names a bucket by its policy and key.
type bucketOf struct{ policy, key string }

// of names the bucket that r asks.
func of(r *core.Request) bucketOf { return bucketOf{r.Policy(), r.Key()} }

// clone is b for keeping: its key may be a view of a buffer that its owner reuses.
func (b bucketOf) clone() bucketOf { return bucketOf{b.policy, strings.Clone(b.key)} }

// call is one decision on its way to Redis and back.
type call struct {
	key     string // as Redis knows it
	request core.Request
	since   time.Time // when its caller began to wait

	state  atomic.Uint32 // waiting, sent or left
	itself [1]*call      // a batch of this call
	own    bool          // its caller sends it, and waits for nobody
	kept   bool          // somebody may look at it after it is answered

	// Set before done gets a value, read after.
	answer core.Answer
	err    error
	landed bool // with its flight, which was the last to know of it
	done   chan struct{}
}

// callPool holds calls that nobody knows of. A call and its channel are half of what a decision would allocate.
type callPool struct{ free sync.Pool }

// get returns a call for r.
func (p *callPool) get(key string, r core.Request) *call {
	c, _ := p.free.Get().(*call)
	if c == nil {
		c = &call{done: make(chan struct{}, 1)}
	}
	c.key, c.request = key, r
	return c
}

// put takes c back, whose caller has the answer, if nobody else knows of c.
func (p *callPool) put(c *call) {
	if !c.kept && (c.own || c.landed) {
		*c = call{done: c.done}
		p.free.Put(c)
	}
}

// alone returns the batch of c alone.
func (c *call) alone() []*call {
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
	answer core.Answer
	err    error
}

// finish answers calls with their outcomes, or all with err if there are none.
func finish(calls []*call, outcomes []outcome, err error) {
	for i, c := range calls {
		o := outcomeOf(i, outcomes, err)
		c.answer, c.err = o.answer, o.err
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

// redisKey is the Redis key of a policy's bucket: the prefix as it is, then policy and key joined by ':', which is
// percent-encoded in policies. Braces are encoded too, so no client can choose its Cluster slot. So is a '%' that begins
// what reads as one of these, so different buckets have different keys.
func redisKey(prefix, policy, key string) string {
	var b strings.Builder
	b.Grow(len(prefix) + len(policy) + 1 + len(key))
	b.WriteString(prefix)
	percent.Escape(&b, policy, ":{}%")
	b.WriteByte(':')
	for i := range len(key) {
		switch c := key[i]; {
		case c == '{', c == '}', c == '%' && encoded(key[i+1:]):
			percent.Write(&b, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// encoded reports whether a '%' before s would read as an encoded '{', '}' or '%'.
func encoded(s string) bool {
	return strings.HasPrefix(s, "7B") || strings.HasPrefix(s, "7D") || strings.HasPrefix(s, "25")
}
