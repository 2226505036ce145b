package outgoing

import (
	"context"
	"slices"
	"time"
)

// Priority is who goes first of the requests that wait for one key.
type Priority uint8

const (
	// Interactive requests go before those of a batch. It is the default.
	Interactive Priority = iota
	// Batch requests go when no interactive ones wait, and in each
	// [batchShare]th turn.
	Batch
	priorities
)

// AsBatch returns a context whose requests have the priority Batch.
func AsBatch(ctx context.Context) context.Context {
	return context.WithValue(ctx, priorityKey{}, Batch)
}

type priorityKey struct{}

// priority returns that of a context's requests.
func priority(ctx context.Context) Priority {
	p, _ := ctx.Value(priorityKey{}).(Priority)
	return p
}

// batchShare is how many turns have one for a waiting batch.
const batchShare = 8

// waiter is a request that waits.
type waiter struct {
	seq      uint64 // the order of arrival
	priority Priority
	until    time.Time     // when its caller's patience ends; zero: never
	wake     chan struct{} // has a value when the waiter must look again
}

// queue is the requests that wait for one key: in the order of their arrival
// for each priority.
type queue struct {
	waiting [priorities][]*waiter
	turns   int
	asking  *waiter // it has its turn already; nil: nobody has
}

// add puts w where its arrival says.
func (q *queue) add(w *waiter) {
	list := &q.waiting[w.priority]
	at := len(*list)
	for at > 0 && (*list)[at-1].seq > w.seq {
		at--
	}
	*list = slices.Insert(*list, at, w)
}

// remove takes w out. If it goes because it had its turn, that turn counts.
func (q *queue) remove(w *waiter, served bool) {
	list := &q.waiting[w.priority]
	if at := slices.Index(*list, w); at >= 0 {
		*list = slices.Delete(*list, at, at+1)
	}
	if q.asking == w {
		q.asking = nil
	}
	if served {
		q.turns++
	}
}

// first returns the one whose turn it is, or nil.
func (q *queue) first() *waiter {
	interactive, batch := q.waiting[Interactive], q.waiting[Batch]
	switch {
	case q.asking != nil:
		return q.asking
	case len(batch) > 0 && (len(interactive) == 0 || q.turns%batchShare == batchShare-1):
		return batch[0]
	case len(interactive) > 0:
		return interactive[0]
	}
	return nil
}

// len is how many wait.
func (q *queue) len() int { return len(q.waiting[Interactive]) + len(q.waiting[Batch]) }

// ahead is how many go before a new one of a priority at least.
func (q *queue) ahead(p Priority) int {
	if p == Batch {
		return q.len()
	}
	return len(q.waiting[Interactive])
}

// wakeFirst has the first look whether it can go.
func (q *queue) wakeFirst() {
	if w := q.first(); w != nil {
		select {
		case w.wake <- struct{}{}:
		default: // it will look anyway
		}
	}
}
