// Package breaker puts a timeout and a circuit breaker around a store. Stores of package redisstore have these for each of their
// servers. This package is for other stores:
//
//	store := breaker.New(memcachedStore, 100*time.Millisecond, 5, 500*time.Millisecond)
package breaker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/circuit"
	"github.com/tokenbucket-go/ratelimit/core/internal/layer"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// Store is a [store.Store] around another one, next. It bounds how long next may take. After so many failed calls in a row it returns
// [core.ErrBreakerOpen] without asking next, so that each policy's OnFailure decides at once. After a pause one call tries next
// again, and if it succeeds, all calls go there again. If calls that were in flight at the same time fail, one of them counts.
//
// A call fails if it returns an error. But a [store.StateError], [store.ErrApart], [store.ErrClock] or an error after the end of the
// caller's context says nothing about next, and does not count. A Store logs the beginning and the end of outages, as the store on
// Redis does. It is safe for concurrent use.
//
// [core.ErrBreakerOpen]: https://pkg.go.dev/github.com/tokenbucket-go/ratelimit/core#ErrBreakerOpen
type Store struct {
	layer.Layer

	timeout time.Duration
	group   circuit.Group
	breaker *circuit.Breaker
}

// New returns a Store around next. A call fails after the timeout, so next must return when its context ends. The breaker opens after
// so many failures in a row, at least 1, and admits a trial after the pause. [core.NewLimiter] reports values out of range.
//
// [core.NewLimiter]: https://pkg.go.dev/github.com/tokenbucket-go/ratelimit/core#NewLimiter
func New(next store.Store, timeout time.Duration, failures int, pause time.Duration) *Store {
	s := &Store{Layer: layer.On(next), timeout: timeout}
	if timeout <= 0 {
		s.Config().ArgumentError("breaker.New timeout", timeout, "must be above 0")
	}
	if failures < 1 {
		s.Config().ArgumentError("breaker.New failures", failures, "must be at least 1")
	}
	if pause <= 0 {
		s.Config().ArgumentError("breaker.New pause", pause, "must be above 0")
	}
	s.group.Name, s.group.Describe = "the store", describe
	s.breaker = s.group.New(func() string { return "" }, failures, pause, s.Config().Log)
	return s
}

// Do has next decide r, if the breaker is closed or this is its trial.
func (s *Store) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	err = s.call(ctx, func(ctx context.Context) error {
		a, err = s.Next.Do(ctx, r)
		return err
	})
	return a, err
}

// DoTogether has next decide requests in one step.
func (s *Store) DoTogether(ctx context.Context, requests []store.Request) (answers []store.JointAnswer, err error) {
	err = s.call(ctx, func(ctx context.Context) error {
		answers, err = s.Layer.DoTogether(ctx, requests)
		return err
	})
	return answers, err
}

// Reset has next forget a bucket.
func (s *Store) Reset(ctx context.Context, policy, key string) error {
	return s.call(ctx, func(ctx context.Context) error { return s.Next.Reset(ctx, policy, key) })
}

// Stats returns the state of the breaker and counts of its outages.
func (s *Store) Stats() storestats.Stats {
	return storestats.Stats{
		Breaker: s.breaker.State(), Opened: s.group.Opened(), Away: s.group.Away(), Unreadable: s.Config().Unreadable(),
	}
}

// errPanic is the result of a call that panicked.
var errPanic = errors.New("the store panicked")

// call calls next, with a context that ends after the timeout, if the breaker admits the call. It reports the result.
func (s *Store) call(ctx context.Context, next func(context.Context) error) error {
	report, err := s.breaker.Enter()
	if err != nil {
		return err
	}
	result := errPanic // until next returns: a call that panics must be reported too
	defer func() {
		report(result)
		outcome := circuit.Answered
		if result != nil && !errors.As(result, &circuit.CallerDone{}) {
			outcome = circuit.Unanswered
		}
		s.breaker.Count(1, outcome, result)
	}()
	own, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	result = next(own)
	switch err = result; {
	case err == nil:
	case ctx.Err() != nil:
		result = circuit.CallerDone{Cause: err}
	case errors.As(err, new(*store.StateError)), errors.Is(err, store.ErrApart), errors.Is(err, store.ErrClock):
		result = nil
	case own.Err() != nil:
		err = fmt.Errorf("no answer within %v: %w", s.timeout, err)
		result = err
	}
	return err
}

// describe returns what is wrong with the store if a call has this error. It is [circuit.Group.Describe].
func describe(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "the store does not answer"
	}
	return "calls to the store fail"
}
