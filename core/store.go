package core

import (
	"context"
	"reflect"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Store keeps buckets and decides requests on them. [MemoryStore] keeps them in
// one process; package redisstore shares them between processes. Package store
// is for those who write another one.
type Store = store.Store

// MemoryStore keeps buckets in this process: for services that run as one
// replica, for tests, and for what each replica limits on its own. It is safe
// for concurrent use, starts no goroutine and needs no closing. A decision on
// up to 4 limits does not allocate, unless the key is new.
//
// It holds a bounded number of keys. If a new key needs room, the store drops a
// full bucket first: a full bucket decides like one that was never used. If no
// bucket is full, the store drops the least recently used one. Its key then
// starts full again.
type MemoryStore = store.Memory

// NewMemoryStore returns an empty store. [NewLimiter] reports mistakes in the
// options: [WithMaxKeys] and [WithClock].
func NewMemoryStore(options ...store.MemoryOption) *MemoryStore { return store.NewMemory(options...) }

// WithMaxKeys bounds how many keys a MemoryStore holds: at least 1, by default
// 1,000,000.
func WithMaxKeys(n int) store.MemoryOption { return store.WithMaxKeys(n) }

// WithClock makes a store read the time from now instead of the clock of the
// system or the Redis server. It is for tests: keys in Redis still expire by the
// server's clock. The time must be from 1970 to 17 September 2112: at any other,
// such as the zero [time.Time], decisions are [ErrClock].
func WithClock(now func() time.Time) store.ClockOption { return store.WithClock(now) }

// Source is who made a decision.
type Source = bucket.Source

const (
	// FromStore means that the limiter's store decided.
	FromStore = bucket.FromStore
	// FromDenyCache means that this process repeated an earlier denial that
	// still holds, without asking the store.
	FromDenyCache = bucket.FromDenyCache
	// FromLease means that this process allowed the request with tokens that it
	// had leased from the store before.
	FromLease = bucket.FromLease
	// FromFallback means that this process decided alone, because the store
	// could not answer (FailLocal).
	FromFallback = bucket.FromFallback
	// FromFailOpen means that the request was allowed without a decision,
	// because the store could not answer (FailOpen), or there was no decision
	// in shadow mode.
	FromFailOpen = bucket.FromFailOpen
)

// duration converts µs to a time.Duration.
func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }

type storeConfig = store.Config

// isNil reports whether v is nil or holds a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

// PeekUnits returns what [Limiter.AllowUnits] would decide now, and takes
// nothing: Allowed, and in which time each limit has the tokens. Without units
// that is one request. It always asks the store, and observers don't see it.
// Errors and cost are those of AllowUnits.
func (l *Limiter) PeekUnits(ctx context.Context, key string, units Units) (res Result, err error) {
	r := request{key: key, peek: true, units: units, Request: store.Request{Request: bucket.Request{N: 1, Dry: true}}}
	err = l.decide(ctx, l.current(), &res, &r)
	res.untaken, res.held = true, nil
	return res, err
}
