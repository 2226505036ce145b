package core

import (
	"context"
	"fmt"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// request is what a caller asks of one key.
type request struct {
	store.Request

	key   string // as the caller passed it
	peek  bool   // only find out, by Dry
	all   bool   // ask for as many tokens as one request can take; under sets N
	units Units  // ask for these; under sets Each

	// Of a joint decision: the charges of one bucket of which this is the sum, and what each of them holds. See divide.
	parts  []*request
	shares []bucket.Request
}

// peeks reports whether r only asks for the state of its bucket.
func (r *request) peeks() bool { return r.N == 0 && !r.all && r.units == nil }

// free reports whether r costs nothing, so that a block does not deny it: see [Policy.Blocked].
func (r *request) free(now *rules) bool {
	for unit, n := range r.units {
		if n > 0 && unit != Requests {
			return false
		}
	}
	return r.peeks() || r.units != nil && (r.units.requests() == 0 || !now.counts(Requests))
}

// check returns why r can't be decided, whatever the store says.
func (r *request) check(ctx context.Context, now *rules) error {
	if err := checkKey(r.key); err != nil {
		return err
	}
	if r.N < 0 {
		return fmt.Errorf("%w: %d tokens", ErrCost, r.N)
	}
	if err := r.units.check(now.counts); err != nil {
		return err
	}
	if r.units == nil && (r.N > 0 || r.all) && !now.plan.limited && !now.counts(Requests) {
		return fmt.Errorf("%w: %s", ErrUnit, Requests)
	}
	if (r.Action == bucket.Reserve || r.Action == bucket.Await) && now.planOf(r.key).slots != nil {
		return ErrSlots
	}
	if err := ctx.Err(); err != nil {
		return callerDone{err}
	}
	return nil
}

// bindPlan sets the limits for r. If r asks for all tokens, or for units, it also sets how many these are.
func (r *request) bindPlan(now *rules, p *plan) {
	r.bind(now, p)
	if len(r.parts) > 1 {
		r.divide(now, p)
	}
}

// bind is bindPlan without the shares.
func (r *request) bind(now *rules, p *plan) {
	r.Plan = p.Plan
	if p.beyond != nil && !r.free(now) {
		if r.Each = p.beyond; r.Action == bucket.AtMost {
			r.Action, r.N, r.More = bucket.Take, r.N+r.More, 0
		}
		return
	}
	switch {
	case r.all:
		r.N = p.LeastCapacity()
	case r.units != nil:
		r.N, r.Each = r.units.requests(), r.units.each(p)
	case r.Action == bucket.AtMost && !p.counts(Requests): // no limit of this key has less than all
		r.Action, r.N, r.More = bucket.Take, r.N+r.More, 0
	}
	if p.Holds && !r.peeks() && (r.Action == bucket.Take || r.Action == bucket.AtMost) {
		if r.Ticket = newTicket(); r.Action == bucket.Take {
			r.Action = bucket.Acquire
		}
	}
}

// divide sets r's shares under p, which r is bound to. There are none if fewer than two of its parts hold something: then that one has
// r's own ticket.
//
// Each part ends for itself what it holds, so it has a ticket of its own for its share. r takes the sum by another ticket. In the same
// step the first share ends that hold and takes what it needs of it, and the others take the rest.
func (r *request) divide(now *rules, p *plan) {
	r.shares = nil
	var last *request
	for _, part := range r.parts {
		if part.bindPlan(now, p); r.Action != bucket.Acquire || part.Ticket == 0 {
			continue
		}
		each := make([]int64, len(p.Rates))
		for i := range each {
			if p.Rates[i].Hold > 0 {
				each[i] = part.Of(i)
			}
		}
		if slices.Max(each) > 0 {
			r.shares = append(r.shares, bucket.Request{Plan: p.Plan, Action: bucket.Acquire, Each: &each, Ticket: part.Ticket})
			last = part
		}
	}
	switch len(r.shares) {
	case 0:
	case 1:
		last.Ticket, r.shares = r.Ticket, nil
	default:
		r.shares[0].Ends = bucket.Ending{Ticket: r.Ticket, Back: bucket.MaxHeld}
	}
}

// divided returns the requests for r's shares. They come after r, and after all else that is decided in the same step: what a store
// can't write it finds out before them.
func (r *request) divided() []store.Request {
	list := make([]store.Request, len(r.shares))
	for i, share := range r.shares {
		list[i] = r.Request
		list[i].Request = share
	}
	return list
}
