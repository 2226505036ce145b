package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// kept is what Redis keeps under a key.
type kept struct {
	exists bool
	text   string            // of a key that is a string
	fields map[string]string // of one that is a hash; nil: it is a string
	ttl    time.Duration     // 0 or less: none
}

var _ store.StateReader = (*Store)(nil)

// State returns what Redis keeps of the bucket of a policy and key: see
// [store.StateReader]. It is for tools. It sends GET, HGETALL, PTTL and TIME to
// the server that has the key, in one round trip, or in two on a Cluster or a
// Ring. It neither asks the breaker nor counts for it. It takes a second at
// most, or ten times the store's timeout if that is longer.
func (s *Store) State(ctx context.Context, policy, key string) (state store.State, err error) {
	err = s.ask(ctx, policy, func(ctx context.Context) error {
		state, err = s.batches.state(ctx, Bucket{policy, key})
		return err
	})
	return state, err
}

// state returns what is stored of a bucket.
func (s *batches) state(ctx context.Context, b Bucket) (state store.State, err error) {
	k, now, err := s.load(ctx, b)
	if err != nil {
		return state, err
	}
	if now == nil {
		one, err := s.nodes.clientOf(ctx, redisKey(s.prefix, b.Policy, b.Key))
		if err != nil {
			return state, err
		}
		now = one.Time(ctx)
	}
	if now.Err() != nil {
		return state, now.Err()
	}
	text := k.text
	if k.fields != nil {
		if text, err = joined(k.fields); err != nil {
			return state, err
		}
	}
	state.Now = now.Val()
	if s.clock != nil {
		state.Now = s.clock()
	}
	if k.exists {
		state.Bytes, state.Expires = []byte(text), max(0, k.ttl)
	}
	return state, nil
}

// load reads a bucket. now is the time of its server, or nil if there are
// several, because their client would send TIME to any of them.
func (s *batches) load(ctx context.Context, b Bucket) (k kept, now *redis.TimeCmd, err error) {
	key := redisKey(s.prefix, b.Policy, b.Key)
	p := s.client.Pipeline()
	text, fields, ttl := p.Get(ctx, key), p.HGetAll(ctx, key), p.PTTL(ctx, key)
	if !s.nodes.several() {
		now = p.Time(ctx)
	}
	_, _ = p.Exec(ctx) // one of the first two is an error of the key's type
	k.ttl = ttl.Val()
	switch {
	case ttl.Err() != nil:
		err = ttl.Err()
	case text.Err() == nil:
		k.exists, k.text = true, text.Val()
	case errors.Is(text.Err(), redis.Nil):
	case fields.Err() == nil:
		k.exists, k.fields = true, fields.Val()
	case redis.HasErrorPrefix(fields.Err(), "WRONGTYPE"):
		err = &store.StateError{Reason: fields.Err().Error()}
	default:
		err = fields.Err()
	}
	return k, now, err
}

// joined returns the state of a key that is a hash, as Request.Decide writes
// it: the holds of each page behind the pages, and pages without their ids.
func joined(fields map[string]string) (string, error) {
	records, err := readRecords(fields[""])
	var b strings.Builder
	for _, r := range records {
		b.WriteString(r.record + r.cut + r.holds)
		var holds strings.Builder
		for _, page := range r.pages {
			b.WriteString(page[2:])
			field, size := fields[r.record[:4]+page[:2]], short(page[2:])*bucket.HoldSize
			if len(field) < size {
				return "", errUnreadable
			}
			holds.WriteString(field[len(field)-size:]) // the first ones have ended
		}
		b.WriteString(holds.String())
	}
	if b.Len() == 0 {
		err = errUnreadable
	}
	return b.String(), err
}

var errUnreadable = &store.StateError{Reason: bucket.ErrUnreadable.Error()}

// storedRecord is what is stored of one limit, in its parts: see constants.lua.
type storedRecord struct {
	record string
	cut    string   // "": nothing is cut
	holds  string   // "", or their head and the holds in front
	pages  []string // the head of each
}

// readRecords reads the records of a key.
func readRecords(text string) (list []storedRecord, err error) {
	rest := reader{text: text}
	for rest.text != "" && !rest.short {
		r := storedRecord{record: rest.take(bucket.RecordSize)}
		if strings.HasPrefix(rest.text, r.record[:4]) {
			r.cut = rest.take(bucket.CutSize)
		}
		if strings.HasPrefix(rest.text, "\x00\x00\x00\x00") {
			r.holds = rest.take(bucket.HoldsSize)
			front, pages := short(r.holds[bucket.HoldsSize-11:]), short(r.holds[bucket.HoldsSize-9:])
			r.holds += rest.take(front * bucket.HoldSize)
			for ; pages > 0 && !rest.short; pages-- {
				r.pages = append(r.pages, rest.take(2+bucket.PageHead))
			}
		}
		list = append(list, r)
	}
	if rest.short {
		return nil, errUnreadable
	}
	return list, nil
}

// short reads a number of two bytes at the beginning of s.
func short(s string) int { return int(binary.BigEndian.Uint16([]byte(s))) }
