package core

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// cancels gathers the cancels of waits whose contexts have ended. Those of one bucket that come while a call is under way
// share the next: of a thousand waits that end at once the first goes alone, and all others together.
//
// One goroutine sends those of a bucket. It ends when no more have come, and each of its calls when the store answers or
// gives up. So there are at most as many as waits have ended.
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

const (
	// cancelTimeout bounds how long a WaitN whose context has ended waits for the store to cancel its reservation.
	cancelTimeout = 50 * time.Millisecond
	// maxCancels bounds the cancels in one call.
	maxCancels = 512
	// cancelTries is how often a call is sent. Who ends a hold a second time changes nothing.
	cancelTries = 3
)

// cancelSoon cancels the reservation r although ctx has ended. It waits for the store for at most cancelTimeout; the store may
// cancel r later.
func (l *Limiter) cancelSoon(ctx context.Context, r *Reservation) {
	ctx = context.WithoutCancel(ctx)
	if l.memory != nil || r.result.Source == FromFallback { // these never wait
		_ = r.Cancel(ctx)
		return
	}
	timer := time.NewTimer(cancelTimeout)
	defer timer.Stop()
	select {
	case <-l.cancels.add(l, ctx, r):
	case <-timer.C:
	}
}

// add has r canceled together with others, in the background. The channel is closed when it is, or can't be.
func (c *cancels) add(l *Limiter, ctx context.Context, r *Reservation) (done <-chan struct{}) {
	of := cancelsOf{r.result.plan, r.result.Source, r.key}
	hold := bucket.Ending{Ticket: r.result.ticket, At: r.result.answer.Due, Back: r.n}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.next[of]
	if next == nil {
		if c.next == nil {
			c.next = make(map[cancelsOf]*cancelsTogether)
		}
		next = &cancelsTogether{done: make(chan struct{})}
		c.next[of] = next
		go c.send(l, ctx, of)
	}
	next.holds = append(next.holds, hold)
	return next.done
}

// send sends the cancels of a bucket until no more come.
func (c *cancels) send(l *Limiter, ctx context.Context, of cancelsOf) {
	for together := c.take(of); together != nil; together = c.take(of) {
		for holds := range slices.Chunk(together.holds, maxCancels) {
			for range cancelTries {
				if l.endHolds(ctx, of.key, of.plan, of.source, holds) == nil {
					break
				}
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
