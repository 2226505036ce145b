package core

import (
	"context"
	"fmt"
	"time"
)

// Store keeps buckets and decides requests on them. [RedisStore] shares them between processes,
// [MemoryStore] keeps them in one. To write another, leave the arithmetic to [Request.Decide] and
// check the result with package storetest.
//
// A Store is safe for concurrent use. The decisions on one key must come in the order of their
// instants, so read the clock inside the atomic step: an older instant after a newer one counts as a
// clock that stepped back, and what refilled between them refills again.
type Store interface {
	// Do answers r. Decisions on one policy and key are atomic: no two see the same tokens. An
	// error means that nothing is known, not that the request is denied; the limiter's failure
	// policy takes over. When ctx ends, Do returns promptly with ctx's error.
	Do(ctx context.Context, r Request) (Answer, error)

	// Reset forgets the bucket of a policy and key, so that it is full again.
	Reset(ctx context.Context, policy, key string) error
}

// Request is one question to a [Store], made by a [Limiter].
type Request struct {
	policy string
	key    string
	plan   *plan

	action action
	n      int64  // tokens
	all    bool   // as many as the smallest capacity; n is set where the limits are known
	more   int64  // reserve, await: how far ahead tokens may be promised, µs; lease: tokens beyond n
	ticket int64  // reserve, await, lease: of the hold that may begin
	ends   ending // a hold that ends before the action
}

// under sets the limits that hold for r, and with them how many tokens `all` are.
func (r *Request) under(p *plan) {
	r.plan = p
	if r.all {
		r.n = p.leastCapacity()
	}
}

// Policy is the name of the policy: part of the bucket's address.
func (r Request) Policy() string { return r.policy }

// Key is who is limited: the other part of the address. It may hold any bytes, at most 128 of them,
// and stays valid after the call.
func (r Request) Key() string { return r.key }

// Answer is a [Store]'s answer to a [Request].
type Answer struct {
	// Allowed reports whether the request was granted.
	Allowed bool

	source Source // who decided, where it was not the store itself
	now    int64  // µs since 1970 on the store's clock
	due    int64  // reserve, await: when the tokens are there, µs since 1970
	lent   int64  // lease: tokens taken beyond the cost
	ticket int64  // reserve: of the hold that may have begun
	levels levels
	waits  *[]waits // of each limit; nil where they follow from the levels
}

// waits are how long, in µs, a limit makes others wait: for what was denied, or else for one more token; and until
// it is full.
type waits struct{ retry, full int64 }

// Decide is the token bucket itself, for stores that keep state as bytes. It answers r from the
// state stored under r's policy and key, nil when there is none, at the instant now.
//
// A next that is not nil must replace state in the same atomic step, in which now was read too, and be
// kept for at least ttl, and as long as state was to be kept: then the bucket is full and may be
// forgotten. State that this library did not write is a [StateError] and should be left alone. Decide
// allocates next and nothing else.
func (r Request) Decide(state []byte, now time.Time) (answer Answer, next []byte, ttl time.Duration, err error) {
	var s stored
	at := now.UnixMicro()
	if state != nil {
		var room [inlineLevels]record
		records, err := parseRecords(room[:0], state)
		if err == nil {
			err = r.plan.arrange(records, at, &s)
		}
		if err != nil {
			return Answer{}, nil, 0, fmt.Errorf("policy %q: %w", r.policy, err)
		}
	}
	if at < 0 || at > latest {
		return Answer{}, nil, 0, fmt.Errorf("%w: %v is not between 1970 and 2112", ErrClock, now)
	}
	if write := r.decide(&answer, &s, at); !write {
		return answer, nil, 0, nil
	}
	var room [inlineLevels]record
	records, keep := s.records(room[:0], r.plan, &answer)
	next = make([]byte, 0, recordSize*len(records))
	for _, record := range records {
		next = appendRecord(next, record)
	}
	return answer, next, duration(max(0, keep-at)), nil
}
