package core

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// held is what a decision holds: its slots, and its estimates of limits with a MaxHold. All copies of a Result share it.
type held struct {
	ticket int64 // of the holds
	cost   int64 // Result.Cost and Result.each of the decision
	each   *[]int64

	mu       sync.Mutex // guards all below; held while something is sent, so that one call follows another
	began    int64      // when the holds began, in µs since 1970 on the store's clock; 0: not known
	released bool       // the slots were, or are about to be
	settled  bool       // the estimates were, or are about to be

	kept atomic.Bool // the app has called Hold, and releases by itself

	inUse *inUse // set before the decision is returned
}

// newTicket returns a ticket that no other hold has.
func newTicket() int64 {
	return bucket.FirstReturning + rand.Int64N(1<<53-bucket.FirstReturning)
}

// newHeld returns what a decision under p holds by a ticket since an instant; nil if nothing.
func newHeld(p *plan, ticket, began, cost int64, each *[]int64) *held {
	h := &held{ticket: ticket, cost: cost, each: each, began: began}
	for i := range p.Rates {
		if p.Rates[i].Hold > 0 && h.tokens(p, i) > 0 {
			return h
		}
	}
	return nil
}

// tokens is what h holds, if the i-th limit of p holds anything.
func (h *held) tokens(p *plan, i int) int64 { return p.CostOf(i, h.cost, h.each) }

// ending is what ends h, and puts back all that it holds. h.mu is held.
func (h *held) ending() bucket.Ending {
	return bucket.Ending{Ticket: h.ticket, At: h.began, Back: bucket.MaxHeld}
}
