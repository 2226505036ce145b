package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// BucketState is what a store keeps of the bucket of a key.
type BucketState struct {
	Expires time.Duration // until the store forgets the bucket, if nobody uses it; 0 if it keeps nothing
	Limits  []LimitState  // those of the policy that are kept, in the policy's order; none: the bucket is full or was never used
	Lacking int           // how many more the policy has for the key
	Others  int           // how many more are kept that the policy does not have, such as one that was removed or renamed
	Newest  int           // how many of Others were written last, by a decision that had limits which the policy does not have
	Written time.Time     // when tokens of any of these were last taken or returned; zero: nothing is kept
}

// LimitState is what a store keeps of one limit.
type LimitState struct {
	Limit    core.Limit // as configured, with its name
	Written  time.Time  // when tokens were last taken or returned, on the store's clock
	Capacity int64      // of the definition that wrote it
	Changed  bool       // another definition than Limit wrote it, such as one before a change, or in another service

	Held int64 // tokens that come back: slots in use, and estimates that are not settled
}

// Inspect returns what s keeps of the bucket of a key of a policy, as a
// [core.Limiter] stores it (see [store.Key]), and a Peek does not show, for
// tools of operators. limits are those of [core.Limiter.Limits]. It costs one
// round trip to Redis. Errors are those of [Store.State], and [store.StateError]
// for state that can't be read.
func (s *Store) Inspect(ctx context.Context, policy, key string, limits []core.Limit) (BucketState, error) {
	state, err := s.State(ctx, policy, key)
	if err != nil || state.Bytes == nil {
		return BucketState{}, err
	}
	var b bucket.Bucket
	if err := b.Parse(state.Bytes); err != nil {
		return BucketState{}, fmt.Errorf("policy %q: %w", policy, &store.StateError{Reason: err.Error()})
	}
	return keptOf(limits, &b, state), nil
}

// Record is what a store keeps of one limit, as far as it tells without the
// policy. When the next token comes is not known.
type Record struct {
	Name     string    // of the limit; "": it is none that limits get by themselves
	Capacity int64     // of the definition that wrote it
	Used     int64     // tokens that were missing when it was written, those held among them; more than Capacity is a debt
	Held     int64     // tokens that come back: slots in use, and estimates that are not settled
	Written  time.Time // on the store's clock, or the start of the step or period before
	Full     time.Time // when the limit is full again at the latest, if nobody uses it
}

// Records returns what s keeps of a key of a policy, as a [core.Limiter] stores
// it, without the definitions of its limits, and the time on the clock of s.
// There are none if the bucket is full or was never used. Cost and errors are
// those of [Inspect].
func (s *Store) Records(ctx context.Context, policy, key string) (list []Record, now time.Time, err error) {
	state, err := s.State(ctx, policy, key)
	if err != nil || state.Bytes == nil {
		return nil, state.Now, err
	}
	var b bucket.Bucket
	if err := b.Parse(state.Bytes); err != nil {
		return nil, state.Now, fmt.Errorf("policy %q: %w", policy, &store.StateError{Reason: err.Error()})
	}
	names, full := namesByTag(policy), time.UnixMicro(b.Expires)
	for i := range b.Records {
		r := &b.Records[i]
		one := Record{Name: names[r.Tag], Capacity: r.Capacity, Held: heldOf(&b, r.Tag, state.Now), Written: time.UnixMicro(r.At), Full: full}
		if full.After(state.Now) {
			one.Used = (r.Used+r.Unit-1)/r.Unit + r.Held
		}
		list = append(list, one)
	}
	return list, state.Now, nil
}

// heldOf returns how many tokens of a limit are held at an instant. A record also
// counts holds that have ended since it was written.
func heldOf(b *bucket.Bucket, tag uint32, at time.Time) (tokens int64) {
	for _, h := range b.Holds {
		if h.Tag == tag && h.End > at.UnixMicro() {
			tokens += h.Tokens
		}
	}
	return tokens
}

// namesByTag has the names that limits of a policy get by themselves. A store
// keeps a hash of each name.
func namesByTag(policy string) map[uint32]string {
	names := make(map[uint32]string)
	for _, of := range []string{"", "-1s", "-1m", "-1h", "-24h", "-168h", "-month"} {
		names[bucket.TagOf(policy+of, bucket.Continuous)] = policy + of
	}
	for _, of := range []string{"", "-at-once"} {
		names[bucket.TagOf(policy+of, bucket.Concurrent)] = policy + of
	}
	return names
}

// keptOf returns what b says of limits.
func keptOf(limits []core.Limit, b *bucket.Bucket, state store.State) BucketState {
	found := BucketState{Expires: state.Expires}
	seen := make(map[uint32]*bucket.Record, len(b.Records))
	for i := range b.Records {
		r := &b.Records[i]
		switch written := time.UnixMicro(r.At); {
		case written.After(found.Written):
			found.Written, found.Newest = written, 1
		case written.Equal(found.Written):
			found.Newest++
		}
		seen[r.Tag] = r
	}
	for _, l := range limits {
		rate := rateOf(l)
		r := seen[rate.Tag]
		if r == nil {
			found.Lacking++
			continue
		}
		kept := LimitState{
			Limit: l, Written: time.UnixMicro(r.At), Capacity: r.Capacity, Held: heldOf(b, r.Tag, state.Now),
			Changed: r.Capacity != rate.Capacity || r.Unit != rate.Unit,
		}
		if found.Limits = append(found.Limits, kept); kept.Written.Equal(found.Written) {
			found.Newest--
		}
	}
	found.Others = len(seen) - len(found.Limits)
	return found
}

// rateOf returns what records have of a limit: its tag, Capacity and Unit.
func rateOf(l core.Limit) bucket.Rate {
	mode := bucket.Mode(l.Mode)
	return bucket.NewRate(bucket.Spec{Capacity: l.Capacity, RefillRate: l.RefillRate, RefillInterval: l.RefillInterval, Mode: mode}, bucket.TagOf(l.Name, mode))
}
