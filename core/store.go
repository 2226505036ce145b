package core

import (
	"context"
	"fmt"
	"log/slog"
	"time"
	"unique"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// Store keeps buckets and decides requests on them. Package redisstore shares them between processes, [MemoryStore]
// keeps them in one. To write another, leave the arithmetic to [Request.Decide] and check the result with package
// storetest. A store that has options may be a [ConfiguredStore] too.
//
// A Store is safe for concurrent use. The decisions on one key must come in the order of their instants, so read the
// clock inside the atomic step: an older instant after a newer one counts as a clock that stepped back, and what
// refilled between them refills again.
type Store interface {
	// Do answers r. Decisions on one policy and key are atomic: no two see the same tokens. An error means that
	// nothing is known, not that the request is denied; the limiter's failure policy takes over. When ctx ends, Do
	// returns promptly with ctx's error.
	Do(ctx context.Context, r Request) (Answer, error)

	// Reset forgets the bucket of a policy and key, so that it is full again.
	Reset(ctx context.Context, policy, key string) error
}

// ConfiguredStore is a [Store] that tells how it was configured.
type ConfiguredStore interface {
	Store

	// Config returns the same StoreConfig at each call.
	Config() *StoreConfig
}

// StoreConfig is what limiters need to know of a store. Set its fields before the store is used.
type StoreConfig struct {
	Mistakes []error          // in the store's options: NewLimiter reports them
	Clock    func() time.Time // that the store goes by, and what stands in for it under FailLocal; nil: the system's
	Logger   *slog.Logger     // nil: slog.Default

	// Recall returns the denial of a request to take n tokens that the store knows to be true, as it was, and how many
	// µs ago; nil if it knows none. Do returns the same, but copies it twice: 170 ns instead of 130 in all. Nil: never.
	Recall func(policy, key string, p *bucket.Plan, n int64) (denial *Answer, age int64)

	known knownPolicies
}

// Mistake adds a [ConfigError] to c.Mistakes.
func (c *StoreConfig) Mistake(field string, value any, reason string) {
	c.Mistakes = append(c.Mistakes, &ConfigError{field, value, reason})
}

// StoreOption is an option of every store that takes it.
type StoreOption interface {
	// ConfigureStore changes c.
	ConfigureStore(c *StoreConfig)
}

// ClockOption is an option of all stores.
type ClockOption struct{ now func() time.Time }

// WithClock makes a store take the time from now instead of the system's clock or the Redis server's: for tests. For
// Redis it must stay between 1970 and 2112.
func WithClock(now func() time.Time) ClockOption { return ClockOption{now} }

// ConfigureStore sets the clock.
func (o ClockOption) ConfigureStore(c *StoreConfig) {
	if o.now == nil {
		c.Mistake("WithClock", nil, "must be a function")
		return
	}
	c.Clock = o.now
}

// Request is one question to a [Store], made by a [Limiter]. What it asks of the bucket is for [Request.Decide], and
// for stores of this module.
type Request struct {
	bucket.Request

	policy unique.Handle[string]
	key    string
	all    bool // asks for as much as one request can take; N is set where the limits are known
}

// NewRequest returns a request on the bucket of a policy and key, for stores of this module.
func NewRequest(policy, key string, r bucket.Request) Request {
	return Request{Request: r, policy: unique.Make(policy), key: key}
}

// Policy is the name of the policy: part of the bucket's address.
func (r Request) Policy() string { return r.policy.Value() }

// Key is who is limited: the other part of the address. It may hold any bytes, at most 128 of them, and stays valid
// after the call.
func (r Request) Key() string { return r.key }

// Answer is a [Store]'s answer to a [Request]. Its field Allowed reports whether the request was granted; the others
// of bucket.Answer are for the limiter.
type Answer struct {
	bucket.Answer

	Source Source // who decided: FromStore unless the store says otherwise
}

// Decide is the token bucket itself, for stores that keep state as bytes. It answers r from the state stored under r's
// policy and key, nil when there is none, at the instant now.
//
// A next that is not nil must replace state in the same atomic step, in which now was read too, and be kept for at
// least ttl: then the bucket is full and may be forgotten. State that this library did not write is a [StateError] and
// should be left alone.
func (r Request) Decide(state []byte, now time.Time) (answer Answer, next []byte, ttl time.Duration, err error) {
	at := now.UnixMicro()
	if at < 0 || at > bucket.Latest {
		return Answer{}, nil, 0, fmt.Errorf("%w: %v is not between 1970 and 2112", ErrClock, now)
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

// stateError is the error of a key whose state r can't be decided by.
func (r *Request) stateError(err error) error {
	return fmt.Errorf("policy %q: %w", r.Policy(), &StateError{err.Error()})
}

// Source says who made a decision.
type Source uint8

const (
	// FromStore is a decision of the policy's own store.
	FromStore Source = iota
	// FromDenyCache is a denial that this process knew to hold still, so that it did not ask the store.
	FromDenyCache
	// FromLease admitted a request on tokens that this process had taken from the store before.
	FromLease
	// FromFallback is a decision of this process alone, made while the store could not answer.
	FromFallback
	// FromFailOpen admitted a request unseen, because the store could not answer.
	FromFailOpen
)

// String names the source in lower case, as metrics do.
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

// duration is a delay in µs as a time.Duration.
func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }
