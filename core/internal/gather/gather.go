// Package gather sends together what comes while a call is under way. It is a
// package because it knows nothing of limits and is tested without any.
package gather

import (
	"slices"
	"sync"
	"time"
)

// Calls gathers values by key: those of one key that come while a call for it
// is under way share the next. Of a thousand that come at once the first goes
// alone, and all others together. Its zero value is ready for use.
//
// One goroutine sends those of a key. It ends when no more have come. Each of
// its calls takes as long as send does; one that fails is sent at most three
// times. So there are at most as many goroutines as values, and none for long.
type Calls[K comparable, V any] struct {
	mu   sync.Mutex         // guards all below; never held while send runs
	next map[K]*together[V] // of each key with a call under way: what goes with the next
}

type together[V any] struct {
	values []V
	done   chan struct{} // closed when they are sent
	before chan struct{} // done of those that are being sent; nil: none are
}

const most = 512

// pauses are how long to wait before a call that failed is sent again: a
// breaker may be open for half a second.
var pauses = [...]time.Duration{250 * time.Millisecond, time.Second}

// Add has a value sent together with others, in the background. send must bear
// to be called again with the same values. done is closed when they are sent,
// or can't be.
func (c *Calls[K, V]) Add(key K, value V, send func([]V) error) (done <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.next[key]
	if next == nil {
		if c.next == nil {
			c.next = make(map[K]*together[V])
		}
		next = &together[V]{done: make(chan struct{})}
		c.next[key] = next
		go c.send(key, send)
	}
	next.values = append(next.values, value)
	return next.done
}

// Pending returns a channel that is closed when all values of a key that were
// added are sent; nil if there are none.
func (c *Calls[K, V]) Pending(key K) (done <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch next := c.next[key]; {
	case next == nil:
		return nil
	case len(next.values) == 0:
		return next.before
	default:
		return next.done
	}
}

func (c *Calls[K, V]) send(key K, send func([]V) error) {
	for t := c.take(key); t != nil; t = c.take(key) {
		for values := range slices.Chunk(t.values, most) {
			err := send(values)
			for i := 0; err != nil && i < len(pauses); i++ {
				time.Sleep(pauses[i])
				err = send(values)
			}
		}
		close(t.done)
	}
}

func (c *Calls[K, V]) take(key K) *together[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.next[key]
	if len(t.values) == 0 {
		delete(c.next, key)
		return nil
	}
	c.next[key] = &together[V]{done: make(chan struct{}), before: t.done}
	return t
}
