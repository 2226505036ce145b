package core

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Several charges of one bucket are one request for their sum: see [AllowTogether]. What it holds, each of them ends for itself. So
// each has a ticket of its own for its share. The request takes the sum by another ticket, and in the same step the first share ends
// that hold and takes what it needs of it, and then the other shares take the rest.

// divide sets r's shares under p, which r and its parts are bound to. There are none if fewer than two of the parts hold something.
func (r *request) divide(now *rules, p *plan) {
	r.shares = nil
	var last *request
	for _, part := range r.parts {
		part.bindPlan(now, p)
		each := make([]int64, len(p.Rates))
		for i := range each {
			if p.Rates[i].Hold > 0 {
				each[i] = part.Of(i)
			}
		}
		if r.Action == bucket.Acquire && part.Ticket != 0 && slices.Max(each) > 0 {
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

// askDivided has s decide r, which has shares: in one step, or one after another if s can't.
func (l *Limiter) askDivided(ctx context.Context, now *rules, r *request, s Store) (store.Answer, error) {
	asked := append([]store.Request{r.Request}, r.divided()...)
	answers, err := []store.JointAnswer(nil), store.ErrApart
	if together, can := s.(store.JointStore); can {
		answers, err = together.DoTogether(ctx, asked)
	}
	switch {
	case err == nil:
		noteErrors(&answers[0], answers[1:])
	case errors.Is(err, store.ErrApart):
		answers = nil
		for _, ask := range asked {
			a, err := s.Do(ctx, ask)
			if answers = append(answers, store.JointAnswer{Answer: a, Err: err}); err != nil || !a.Allowed {
				break
			}
		}
	default:
		return store.Answer{}, err
	}
	a := l.whole(ctx, now, r, s, &answers[0], answers[1:])
	return a.Answer, a.Err
}

// noteErrors gives a request the error of any of its shares that were decided in the same step: then nothing was taken.
func noteErrors(own *store.JointAnswer, shares []store.JointAnswer) {
	for _, a := range shares {
		own.Err = cmp.Or(own.Err, a.Err)
	}
}

// whole returns the answer of s to r, whose shares have these answers: its own, unless it was allowed and a share was not, because
// another request came in between, or there are too many holds. Then whole gives back all that was taken, and returns that answer.
func (l *Limiter) whole(ctx context.Context, now *rules, r *request, s Store, own *store.JointAnswer, shares []store.JointAnswer) *store.JointAnswer {
	if own.Err != nil || !own.Allowed {
		return own
	}
	i := slices.IndexFunc(shares, func(a store.JointAnswer) bool { return a.Err != nil || !a.Allowed })
	if i < 0 {
		return own
	}
	began := time.Now()
	back := r.Request
	back.Request = r.Undo(&own.Answer)
	_, err := s.Do(context.WithoutCancel(ctx), back)
	for n := range r.shares {
		back.Request = r.shares[n].Undo(&own.Answer)
		_, failed := s.Do(context.WithoutCancel(ctx), back)
		err = errors.Join(err, failed)
	}
	if err != nil {
		l.unsettled(ctx, now, r.key, own.Source, began, err)
	}
	return &shares[i]
}
