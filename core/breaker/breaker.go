// Package breaker puts a timeout and a circuit breaker around a store. Stores
// of package redisstore have these for each of their servers. This package is
// for other stores:
//
//	store := breaker.New(memcachedStore, 100*time.Millisecond, 5, 500*time.Millisecond)
//
// See [docs/failure.md].
//
// [docs/failure.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/failure.md
package breaker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/layer"
	"github.com/tokenbucket-go/ratelimit/core/internal/outage"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

type below = layer.Layer // embedded under a name that is not exported

// Store is a [store.Store] around another one, next. It bounds how long next
// may take. After so many failed calls in a row it returns
// [core.ErrBreakerOpen] without asking next, so that each policy's OnFailure
// decides at once. After a pause one call tries next again, and if it succeeds,
// all calls go there again. If calls that were in flight at the same time fail,
// one of them counts.
//
// A call fails if it returns an error. But a [store.StateError],
// [store.ErrApart], [store.ErrClock] or an error after the end of the caller's
// context says nothing about next, and does not count. A Store logs the
// beginning and the end of outages, as the store on Redis does. It is safe for
// concurrent use.
//
// What callers return while next is not asked is kept, and sent when the
// breaker closes: releases of slots, cancels, undos and settlements. If no
// other call tries next, the Store does. The end of a hold is also sent again
// if next has failed, since it has an effect only once. Up to 10,000 requests
// are kept, each until its hold ends by itself or its bucket is full, and for a
// day at most.
//
// [core.ErrBreakerOpen]: https://pkg.go.dev/github.com/tokenbucket-go/ratelimit/core#ErrBreakerOpen
type Store struct {
	below

	timeout time.Duration
	totals  outage.Totals
	breaker *outage.Breaker
}

// New returns a Store around next. A call fails after the timeout, so next must
// return when its context ends. The breaker opens after so many failures in a
// row, at least 1, and admits a trial after the pause. [core.NewLimiter]
// reports values out of range.
//
// [core.NewLimiter]: https://pkg.go.dev/github.com/tokenbucket-go/ratelimit/core#NewLimiter
func New(next store.Store, timeout time.Duration, failures int, pause time.Duration) *Store {
	s := &Store{below: layer.On(next), timeout: timeout}
	if timeout <= 0 {
		s.Config().ArgumentError("breaker.New timeout", timeout, "must be above 0")
	}
	if failures < 1 {
		s.Config().ArgumentError("breaker.New failures", failures, "must be at least 1")
	}
	if pause <= 0 {
		s.Config().ArgumentError("breaker.New pause", pause, "must be above 0")
	}
	s.breaker = outage.New(outage.Settings{
		Failures: failures, Pause: pause, Totals: &s.totals,
		Name: "the store", Describe: describe, Server: func() string { return "" }, Logger: s.Config().Log,
		Send: s.sendKept,
	})
	return s
}

// Do has next decide r, if the breaker is closed or this is its trial.
func (s *Store) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	err = s.call(ctx, func(ctx context.Context) error {
		a, err = s.Next.Do(ctx, r)
		return err
	}, r)
	return a, err
}

// DoTogether has next decide requests in one step.
func (s *Store) DoTogether(ctx context.Context, requests []store.Request) (answers []store.Answer, err error) {
	err = s.call(ctx, func(ctx context.Context) error {
		answers, err = s.below.DoTogether(ctx, requests)
		return err
	}, requests...)
	return answers, err
}

// Reset has next forget a bucket.
func (s *Store) Reset(ctx context.Context, policy, key string) error {
	return s.call(ctx, func(ctx context.Context) error { return s.Next.Reset(ctx, policy, key) })
}

// Stats returns the state of the breaker and counts of its outages.
func (s *Store) Stats() storestats.Stats {
	return storestats.Stats{
		Breaker: s.breaker.State(), Opened: s.totals.Opened(), Away: s.totals.Away(), Unreadable: s.Config().Unreadable(),
	}
}

var errPanic = errors.New("the store panicked") // the result of a call that does

// call calls next, if the breaker admits it. The breaker's trial sends first
// what is kept. If next fails to decide requests, call keeps what is to be sent
// later.
func (s *Store) call(ctx context.Context, next func(context.Context) error, requests ...store.Request) error {
	trial := s.breaker.Open()
	report, err := s.breaker.Enter()
	if err == nil && trial {
		if err = s.breaker.SendKept(); err != nil {
			report(err)
		}
	}
	if err != nil {
		s.keep(requests, err, true)
		return err
	}
	result := errPanic // until next returns: a call that panics must be reported too
	defer func() {
		s.keep(requests, result, false) // before the report: the next trial must find what this one has not sent
		report(result)
	}()
	err, result = s.bounded(ctx, next)
	return err
}

// bounded calls next with a context that ends after the timeout. It returns
// next's error, and what that says about the store.
func (s *Store) bounded(ctx context.Context, next func(context.Context) error) (err, result error) {
	own, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	switch err = next(own); {
	case err == nil, errors.As(err, new(*store.StateError)), errors.Is(err, store.ErrApart), errors.Is(err, store.ErrClock):
		return err, nil
	case ctx.Err() != nil:
		return err, outage.CallerDone{Cause: err}
	case own.Err() != nil:
		err = fmt.Errorf("no answer within %v: %w", s.timeout, err)
	}
	return err, err
}

// keep keeps what should be sent later of requests that failed with err. unsent
// means that next was not asked.
func (s *Store) keep(requests []store.Request, err error, unsent bool) {
	for _, r := range requests {
		if later, some := outage.Later(r, err, unsent); some {
			s.breaker.Keep(outage.Returned{Request: later.Clone()})
		}
	}
}

// sendKept is the Send of the breaker. It sends 64 requests at a time, until one
// fails.
func (s *Store) sendKept(requests []outage.Returned) (failed error) {
	for some := range slices.Chunk(requests, 64) {
		results := make([]error, len(some))
		var all sync.WaitGroup
		for i, r := range some {
			if failed != nil {
				s.keep([]store.Request{r.Request}, failed, true)
				continue
			}
			all.Go(func() {
				results[i] = s.sendOne(r.Request)
				s.keep([]store.Request{r.Request}, results[i], false)
			})
		}
		all.Wait()
		for _, err := range results {
			if err != nil {
				failed = err
			}
		}
	}
	return failed
}

// sendOne sends a request. A panic is an error: no caller could recover from it.
func (s *Store) sendOne(r store.Request) (err error) {
	err = errPanic
	defer func() { _ = recover() }()
	_, result := s.bounded(context.Background(), func(ctx context.Context) error {
		_, err := s.Next.Do(ctx, r)
		return err
	})
	return result
}

// describe is the Describe of the breaker.
func describe(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "the store does not answer"
	}
	return "calls to the store fail"
}
