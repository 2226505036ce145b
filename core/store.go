package core

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/logline"
)

// Store keeps buckets and decides requests on them. [MemoryStore] keeps them in one process; package redisstore shares
// them between processes. To write another store, call [Request.Decide] for the arithmetic and test the store with
// package storetest. A store with options can implement [ConfiguredStore] too.
//
// A Store must be safe for concurrent use. It must decide the requests on one key in the order of their instants, so
// read the clock inside the atomic step. An older instant after a newer one counts as a clock that stepped back: the
// bucket refills again for the time between them.
type Store interface {
	// Do answers r. Decisions on one policy and key are atomic: no two take the same tokens. An error means that
	// there is no decision, not that the request is denied; the policy's OnFailure then decides. If ctx ends, Do
	// must return with ctx's error: at ctx's deadline, and soon after a cancellation.
	Do(ctx context.Context, r Request) (Answer, error)

	// Reset forgets the bucket of a policy and key, so that it is full again.
	Reset(ctx context.Context, policy, key string) error
}

// JointStore is a [Store] that can decide several requests in one step.
type JointStore interface {
	Store

	// DoTogether answers requests on different buckets, in their order. Either all are allowed and take their tokens, or
	// none takes any, and an answer that is allowed says only that this bucket has the tokens.
	//
	// A request on a bucket that can't be used has an error for an answer, such as the [StateError] of [Request.Decide].
	// Then none takes tokens, and the others are answered all the same. DoTogether itself returns [ErrApart], and takes
	// nothing, if the buckets are in places where nothing is atomic. Otherwise its errors are those of Do: there is no
	// answer to any request.
	DoTogether(ctx context.Context, requests []Request) ([]JointAnswer, error)
}

// JointAnswer is the answer of a [JointStore] to one of several requests.
type JointAnswer struct {
	Answer

	Err error // why there is no Answer; nil if there is one
}

// ConfiguredStore is a [Store] that has a configuration.
type ConfiguredStore interface {
	Store

	// Config returns the same StoreConfig at each call.
	Config() *StoreConfig
}

// StoreConfig is the part of a store's configuration that limiters use. Set its fields before you use the store.
type StoreConfig struct {
	Mistakes []error          // mistakes in the store's options; NewLimiter reports them
	Clock    func() time.Time // the clock of the store and of its fallback under FailLocal; nil: the default clock
	Logger   *slog.Logger     // nil: slog.Default

	known      knownPolicies
	unreadable logline.Pace // keys whose state can't be used
}

// Unreadable is how often limiters of the store got a [StateError] from it, for the store's statistics.
func (c *StoreConfig) Unreadable() int64 { return c.unreadable.Count() }

// Mistake adds a [ConfigError] to c.Mistakes.
func (c *StoreConfig) Mistake(field string, value any, reason string) {
	c.Mistakes = append(c.Mistakes, &ConfigError{field, value, reason})
}

// ClockError is [ErrClock] if the injected clock is out of range.
func (c *StoreConfig) ClockError() error {
	if c.Clock == nil {
		return nil
	}
	_, err := instantOf(c.Clock())
	return err
}

// start is where Now counts from.
var start = time.Now()

var startNanos = start.UnixNano()

// Now is the time in this process, or that of the injected clock.
func (c *StoreConfig) Now() time.Time {
	if c.Clock == nil {
		return start.Add(time.Since(start)) // time.Now, without a look at the wall's clock
	}
	return c.Clock()
}

// Nanos is Now in ns since 1970. It returns [ErrClock] if that is out of range.
func (c *StoreConfig) Nanos() (int64, error) {
	if c.Clock == nil {
		return startNanos + int64(time.Since(start)), nil
	}
	now := c.Clock()
	_, err := instantOf(now)
	return now.UnixNano(), err
}

// StoreOption is an option of a store.
type StoreOption interface {
	// ConfigureStore applies the option to c.
	ConfigureStore(c *StoreConfig)
}

// ClockOption is an option of all stores.
type ClockOption struct{ now func() time.Time }

// WithClock makes a store read the time from now instead of the clock of the system or the Redis server. It is for
// tests. The time must be from 1970 to 2112: at any other, such as the zero [time.Time], decisions are [ErrClock].
func WithClock(now func() time.Time) ClockOption { return ClockOption{now} }

// ConfigureStore sets the clock.
func (o ClockOption) ConfigureStore(c *StoreConfig) {
	if o.now == nil {
		c.Mistake("WithClock", nil, "must be a function")
		return
	}
	c.Clock = o.now
}

// Request is what a [Limiter] asks a [Store] to decide. Stores pass it to [Request.Decide]. Only stores of this module
// use the fields of bucket.Request.
type Request struct {
	bucket.Request

	class *class // of the policy's keys
	key   string
	hash  uint64 // what Hash returned; 0: nothing yet
	all   bool   // ask for as many tokens as one request can take; under sets N
	units Units  // ask for these; under sets Each
}

// NewRequest returns a request on the bucket of a policy and key, for stores of this module.
func NewRequest(policy, key string, r bucket.Request) Request {
	return Request{Request: r, class: newClass(policy, r.Plan), key: key}
}

// Policy returns the name of the policy. Policy and Key together identify the bucket.
func (r Request) Policy() string { return r.class.policy.Value() }

// Key returns the key that is limited. It can hold any bytes, from 1 to 128 of them. The string stays valid after the
// request.
func (r Request) Key() string { return r.key }

// Hash returns a hash of the policy and the key. Requests on the same bucket have the same hash, in this process.
func (r *Request) Hash() uint64 {
	if r.hash == 0 {
		r.hash = r.class.hashOf(r.key)
	}
	return r.hash
}

// Answer is a [Store]'s answer to a [Request]. Its field Allowed reports whether the request is allowed. The other
// fields of bucket.Answer are for the limiter.
type Answer struct {
	bucket.Answer

	Source Source // who decided; the zero value is FromStore
}

// Decide is the token bucket's arithmetic, for stores that keep state as bytes. It answers r at the instant now. state is
// what the store keeps under r's policy and key, or nil if it keeps nothing.
//
// If next is not nil, the store must replace state with it, in the same atomic step in which it read state and now. It
// must keep next for at least ttl. After that the bucket is full, so the store may forget it.
//
// Decide returns a [StateError] for state that this library did not write; the store should leave that state alone. It
// returns [ErrClock] if now is not between 1970 and 2112.
func (r Request) Decide(state []byte, now time.Time) (answer Answer, next []byte, ttl time.Duration, err error) {
	at, err := instantOf(now)
	if err != nil {
		return Answer{}, nil, 0, err
	}
	next, keep, err := r.Request.DecideState(&answer.Answer, state, at)
	if err != nil {
		return Answer{}, nil, 0, r.stateError(err)
	}
	if next == nil {
		return answer, nil, 0, nil
	}
	return answer, next, duration(max(0, keep-at)), nil
}

// stateError wraps err, which says why a key's state can't be used.
func (r *Request) stateError(err error) error {
	return fmt.Errorf("policy %q: %w", r.Policy(), &StateError{err.Error()})
}

// Source is who made a decision.
type Source uint8

const (
	// FromStore means that the limiter's store decided.
	FromStore Source = iota
	// FromDenyCache means that this process repeated an earlier denial that still holds, without asking the store.
	FromDenyCache
	// FromLease means that this process allowed the request with tokens that it had leased from the store before.
	FromLease
	// FromFallback means that this process decided alone, because the store could not answer (FailLocal).
	FromFallback
	// FromFailOpen means that the request was allowed without a decision, because the store could not answer
	// (FailOpen), or there was no decision in shadow mode.
	FromFailOpen
)

// String returns the source's name in lower case, as metrics use it.
func (s Source) String() string {
	switch s {
	case FromStore:
		return "store"
	case FromDenyCache:
		return "deny-cache"
	case FromLease:
		return "lease"
	case FromFallback:
		return "fallback"
	case FromFailOpen:
		return "fail-open"
	}
	return "Source(" + itoa(int64(s)) + ")"
}

// duration converts µs to a time.Duration.
func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }
