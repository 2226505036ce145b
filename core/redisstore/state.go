package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// State returns what Redis keeps of the bucket of a policy and key: see
// [store.StateReader]. It is for tools. It sends GET, HGETALL, PTTL and TIME to
// the server that has the key, in one round trip, or in two on a Cluster or a
// Ring. It neither asks the breaker nor counts for it. It takes a second at
// most, or ten times the store's timeout if that is longer.
func (s *Store) State(ctx context.Context, policy, key string) (store.State, error) {
	if err := s.mistaken(); err != nil {
		return store.State{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.batches.connectTimeout())
	defer cancel()
	state, err := s.batches.state(ctx, redisKey(s.batches.prefix, policy, key))
	if err != nil {
		return store.State{}, &failure{inPolicy(policy), withoutArguments(err)}
	}
	return state, nil
}

// state returns what is stored under a Redis key.
func (s *batches) state(ctx context.Context, key string) (state store.State, err error) {
	defer recovered(&err)
	p := s.client.Pipeline()
	text, fields, ttl := p.Get(ctx, key), p.HGetAll(ctx, key), p.PTTL(ctx, key)
	var now *redis.TimeCmd
	if s.nodes.clientOf == nil {
		now = p.Time(ctx)
	}
	_, _ = p.Exec(ctx) // one of the first two is an error of the key's type
	if now == nil {    // a client of several servers would send TIME to any of them
		one, err := s.nodes.clientOf(ctx, key)
		if err != nil {
			return store.State{}, err
		}
		now = one.Time(ctx)
	}
	state.Now, state.Expires = now.Val(), max(0, ttl.Val())
	switch {
	case ttl.Err() != nil:
		return store.State{}, ttl.Err()
	case now.Err() != nil:
		return store.State{}, now.Err()
	case text.Err() == nil:
		state.Bytes = []byte(text.Val())
		return state, nil
	case errors.Is(text.Err(), redis.Nil):
		return store.State{Now: state.Now}, nil
	case fields.Err() == nil:
		if state.Bytes, err = joined(fields.Val()); err != nil {
			return store.State{}, err
		}
		return state, nil
	}
	if redis.HasErrorPrefix(fields.Err(), "WRONGTYPE") {
		return store.State{}, &store.StateError{Reason: fields.Err().Error()}
	}
	return store.State{}, fields.Err()
}

// joined returns the state of a key that is a hash, as Request.Decide writes
// it: the holds of each page behind the pages, and pages without their ids.
func joined(fields map[string]string) (state []byte, err error) {
	rest, enough := fields[""], true
	take := func(n int) string {
		if enough = enough && len(rest) >= n; !enough {
			return strings.Repeat("\x00", n)
		}
		taken := rest[:n]
		rest = rest[n:]
		return taken
	}
	for rest != "" && enough {
		record := take(bucket.RecordSize)
		state = append(state, record...)
		if strings.HasPrefix(rest, record[:4]) {
			state = append(state, take(bucket.CutSize)...)
		}
		if !strings.HasPrefix(rest, "\x00\x00\x00\x00") {
			continue
		}
		head := take(bucket.HoldsSize)
		state = append(state, head...)
		front, pages := short(head[bucket.HoldsSize-11:]), short(head[bucket.HoldsSize-9:])
		state = append(state, take(front*bucket.HoldSize)...)
		var holds []byte
		for ; pages > 0 && enough; pages-- {
			page := take(2 + bucket.PageHead)
			state = append(state, page[2:]...)
			field, size := fields[record[:4]+page[:2]], short(page[2:])*bucket.HoldSize
			if enough = enough && len(field) >= size; enough {
				holds = append(holds, field[len(field)-size:]...) // the first ones have ended
			}
		}
		state = append(state, holds...)
	}
	if !enough || state == nil {
		return nil, &store.StateError{Reason: bucket.ErrUnreadable.Error()}
	}
	return state, nil
}

// short reads a number of two bytes at the beginning of s.
func short(s string) int { return int(binary.BigEndian.Uint16([]byte(s))) }

var _ store.StateReader = (*Store)(nil)
