package core

import (
	"context"
	"errors"
	"fmt"
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
// system or the Redis server. It is for tests. The time must be from 1970 to 17
// September 2112: at any other, such as the zero [time.Time], decisions are
// [ErrClock].
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

// Inspection is what a store keeps of one bucket: what [Limiter.Inspect]
// returns.
type Inspection struct {
	Expires time.Duration // until the store forgets the bucket, if nobody uses it; 0 if it keeps nothing
	Limits  []StoredLimit // those of the policy that are kept, in the policy's order; none: the bucket is full or was never used
	Lacking int           // how many more the policy has for the key
	Others  int           // how many more are kept that the policy does not have, such as one that was removed or renamed
	Newest  int           // how many of Others were written last, by a decision that had limits which the policy does not have
	Written time.Time     // when tokens of any of these were last taken or returned; zero: nothing is kept
}

// StoredLimit is what a store keeps of one limit.
type StoredLimit struct {
	Limit    Limit     // as configured, with its name
	Written  time.Time // when tokens were last taken or returned, on the store's clock
	Capacity int64     // of the definition that wrote it
	Changed  bool      // another definition than Limit wrote it, such as one before a change, or in another service

	Reserved int64 // tokens that [Limiter.Reserve] and Wait have promised and that are not due yet
	Leased   int64 // tokens on lease, which other processes may use
	Held     int64 // tokens that come back: slots in use, and estimates that are not settled
}

// Inspect returns what the store keeps of key's bucket, which a Peek does not
// tell. It is for tools of operators. It costs one round trip to Redis. Errors
// are those of [Limiter.Reset], store.StateError for state that can't be read,
// and [errors.ErrUnsupported] for a store that is no store.StateReader.
func (l *Limiter) Inspect(ctx context.Context, key string) (Inspection, error) {
	if err := checkKey(key); err != nil {
		return Inspection{}, err
	}
	reader, ok := l.store.(store.StateReader)
	if !ok {
		return Inspection{}, fmt.Errorf("ratelimit: this store does not show what it keeps: %w", errors.ErrUnsupported)
	}
	now := l.current()
	state, err := reader.State(ctx, now.policy.Name, now.storedKey(key))
	if err != nil || state.Bytes == nil {
		return Inspection{}, l.failed(ctx, key, err)
	}
	records, err := bucket.ParseRecords(nil, state.Bytes)
	if err != nil {
		return Inspection{}, fmt.Errorf("policy %q: %w", now.policy.Name, &store.StateError{Reason: err.Error()})
	}
	return inspect(now.planOf(key), records, state), nil
}

// inspect returns what records say of the limits of p.
func inspect(p *plan, records []bucket.Record, state store.State) Inspection {
	found := Inspection{Expires: state.Expires}
	at, seen := state.Now.UnixMicro(), make(map[uint32]*StoredLimit, len(records))
	for i := range records {
		r := &records[i]
		switch written := time.UnixMicro(r.At); {
		case written.After(found.Written):
			found.Written, found.Newest = written, 1
		case written.Equal(found.Written):
			found.Newest++
		}
		seen[r.Tag()] = nil
		if j := p.IndexOf(r.Tag()); j >= 0 {
			uses := r.Holds.Uses(at)
			seen[r.Tag()] = &StoredLimit{
				Limit: p.limits[j], Written: time.UnixMicro(r.At), Capacity: r.Rate.Capacity, Changed: !r.Rate.Same(&p.Rates[j]),
				Reserved: uses.Reserved, Leased: uses.Leased, Held: uses.Returning,
			}
		}
	}
	for i := range p.Rates {
		if s := seen[p.Rates[i].Tag]; s != nil {
			if found.Limits = append(found.Limits, *s); s.Written.Equal(found.Written) {
				found.Newest--
			}
		}
	}
	found.Others, found.Lacking = len(seen)-len(found.Limits), len(p.Rates)-len(found.Limits)
	return found
}
