package core

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/store"
)

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

// sharesOf returns the answers to the shares of each of requests that were decided in one step. They follow those to the requests.
func sharesOf(requests []request, answers []store.JointAnswer) [][]store.JointAnswer {
	shares, rest := make([][]store.JointAnswer, len(requests)), answers[len(requests):]
	for i := range requests {
		n := len(requests[i].shares)
		shares[i], rest = rest[:n], rest[n:]
		noteErrors(&answers[i], shares[i])
	}
	return shares
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
	l.waiters.wake(r.key)
	if err != nil {
		l.unsettled(ctx, now, r.key, own.Source, began, err)
	}
	return &shares[i]
}
