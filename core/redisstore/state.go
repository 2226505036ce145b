package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

var _ store.StateReader = (*Store)(nil)

// State returns what Redis keeps of the bucket of a policy and key: see
// [store.StateReader]. It is for tools. It sends GET, ZRANGE, PTTL and TIME to
// the server that has the key, in one round trip, or in two on a Cluster or a
// Ring. It neither asks the breaker nor counts for it. It takes a second at
// most, or ten times the store's timeout if that is longer.
func (s *Store) State(ctx context.Context, policy, key string) (state store.State, err error) {
	err = s.ask(ctx, policy, func(ctx context.Context) error {
		state, err = s.batches.state(ctx, redisKey(s.batches.prefix, policy, key))
		return err
	})
	return state, err
}

// state returns what is stored of the bucket with this Redis key.
func (s *batches) state(ctx context.Context, key string) (state store.State, err error) {
	p := s.client.Pipeline()
	text, ttl := p.Get(ctx, key), p.PTTL(ctx, key)
	holds := p.ZRangeWithScores(ctx, holdsKey(s.prefix, key), 0, -1)
	var now *redis.TimeCmd // of the key's server; a client of several would ask any of them
	if !s.nodes.several() {
		now = p.Time(ctx)
	}
	_, _ = p.Exec(ctx) // each has its own error
	switch err := text.Err(); {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return state, &store.StateError{Reason: serverText(err)}
	case err != nil && !errors.Is(err, redis.Nil):
		return state, err
	}
	if err := errors.Join(ttl.Err(), holds.Err()); err != nil {
		return state, err
	}
	if now == nil {
		one, err := s.nodes.clientOf(ctx, key)
		if err != nil {
			return state, err
		}
		now = one.Time(ctx)
	}
	if now.Err() != nil {
		return state, now.Err()
	}
	if state.Now = now.Val(); s.clock != nil {
		state.Now = s.clock()
	}
	if text.Val() == "" {
		return state, nil
	}
	var b bucket.Bucket
	if err := b.Decode([]byte(text.Val())); err != nil {
		return state, &store.StateError{Reason: err.Error()}
	}
	for _, z := range holds.Val() {
		member, _ := z.Member.(string)
		hold, err := bucket.ParseMember([]byte(member))
		if err != nil {
			return state, &store.StateError{Reason: err.Error()}
		}
		hold.End = int64(z.Score)
		b.Holds = append(b.Holds, hold)
	}
	state.Bytes, state.Expires = b.Append(nil), max(0, ttl.Val())
	return state, nil
}
