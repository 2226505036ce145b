package core

import (
	"slices"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// cancels gathers the cancels of waits whose contexts have ended. Those of one bucket that come while a call is under way
// share the next: of a thousand waits that end at once the first goes alone, and all others together.
//
// One goroutine sends those of a bucket. It ends when no more have come. Each of its calls takes as long as the store's own
// timeouts let it, and is sent at most three times. So there are at most as many goroutines as waits have ended, and none for long.
type cancels struct {
	mu   sync.Mutex                     // guards all below; never held across I/O
	next map[cancelsOf]*cancelsTogether // of each bucket with a call under way: what goes with the next
}

// cancelsOf is what cancels have in common that share a call.
type cancelsOf struct {
	plan   *plan // that the tokens were taken under
	source Source
	key    string
}

// cancelsTogether is cancels that share a call.
type cancelsTogether struct {
	holds []bucket.Ending
	done  chan struct{} // closed when the store has answered
}

// maxCancels bounds the cancels in one call.
const maxCancels = 512

// cancelPauses are how long to wait before a call that failed is sent again: a breaker may be open for half a second. Who ends a
// hold a second time changes nothing.
var cancelPauses = [...]time.Duration{250 * time.Millisecond, time.Second}

// add has a hold ended together with others, in the background: by send, which returns when the store has answered. The channel
// is closed when the hold has ended, or can't be.
func (c *cancels) add(of cancelsOf, hold bucket.Ending, send func([]bucket.Ending) error) (done <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.next[of]
	if next == nil {
		if c.next == nil {
			c.next = make(map[cancelsOf]*cancelsTogether)
		}
		next = &cancelsTogether{done: make(chan struct{})}
		c.next[of] = next
		go c.send(of, send)
	}
	next.holds = append(next.holds, hold)
	return next.done
}

// send sends the cancels of a bucket until no more come.
func (c *cancels) send(of cancelsOf, send func([]bucket.Ending) error) {
	for together := c.take(of); together != nil; together = c.take(of) {
		for holds := range slices.Chunk(together.holds, maxCancels) {
			err := send(holds)
			for i := 0; err != nil && i < len(cancelPauses); i++ {
				time.Sleep(cancelPauses[i])
				err = send(holds)
			}
		}
		close(together.done)
	}
}

// take returns the cancels that go together next, or nil.
func (c *cancels) take(of cancelsOf) *cancelsTogether {
	c.mu.Lock()
	defer c.mu.Unlock()
	together := c.next[of]
	if len(together.holds) == 0 {
		delete(c.next, of)
		return nil
	}
	c.next[of] = &cancelsTogether{done: make(chan struct{})}
	return together
}
