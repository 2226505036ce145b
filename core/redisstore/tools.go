package redisstore

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

var _ store.StateReader = (*Store)(nil)

// State returns what Redis keeps of the bucket of a policy and key: see
// [store.StateReader]. It is for tools. It sends GET, ZRANGE, PTTL and a script
// that reads the clock to the server that has the key, in one round trip. It
// neither asks the breaker nor counts for it. It takes a second at most, or ten
// times the store's timeout if that is longer.
func (s *Store) State(ctx context.Context, policy, key string) (state store.State, err error) {
	err = s.ask(ctx, policy, func(ctx context.Context) error {
		state, err = s.batches.state(ctx, redisKey(s.batches.prefix, policy, key))
		return err
	})
	return state, err
}

// microseconds is a script, because TIME names no key: a client of several
// servers would ask any of them.
const microseconds = "local t = redis.call('TIME') return string.format('%.0f', t[1] * 1000000 + t[2])"

// state returns what is stored of the bucket with this Redis key.
func (s *batches) state(ctx context.Context, key string) (state store.State, err error) {
	p := s.client.Pipeline()
	text, ttl := p.Get(ctx, key), p.PTTL(ctx, key)
	holds := p.ZRangeWithScores(ctx, holdsKey(s.prefix, key), 0, -2) // the last member is no hold: see full.lua
	now := p.Eval(ctx, microseconds, []string{key})
	_, _ = p.Exec(ctx) // each has its own error
	micros, nowErr := now.Int64()
	switch err := text.Err(); {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return state, &store.StateError{Reason: serverText(err)}
	case err != nil && !errors.Is(err, redis.Nil):
		return state, err
	}
	if err := errors.Join(ttl.Err(), holds.Err(), nowErr); err != nil {
		return state, err
	}
	if state.Now = time.UnixMicro(micros); s.config.Clock != nil {
		state.Now = s.config.Clock()
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

// Buckets lists the buckets of a policy, or with "" those of all policies, for
// tools. It uses SCAN, on one server after another: each master of a Cluster,
// each shard of a Ring. Redis looks at all its keys for that, at most perSecond
// of them a second, and fewer while its answers take twice as long as usual, so
// that others hardly notice; 0 means as fast as it can. Other work goes on
// meanwhile.
//
// progress, if given, learns after each step how many keys were looked at, and
// how many there are: 0 if the user may not ask (DBSIZE).
//
// A bucket that exists all the time is listed, and again if Redis shrinks its
// table of keys meanwhile. One that comes or goes, or whose slot moves, may be
// missing or listed again. Keys that this package did not name are left out.
//
// An error with a server's address says that the buckets of this server are
// missing, or some of them: the list goes on with the next server, if the loop
// does. Any other error ends the list, such as ctx's.
func (s *Store) Buckets(ctx context.Context, policy string, perSecond int, progress ...func(looked, all int64)) iter.Seq2[Bucket, error] {
	begins := s.batches.prefix
	if policy != "" {
		begins = redisKey(s.batches.prefix, policy, "")
	}
	return s.list(ctx, begins, perSecond, progress, func(key string) (Bucket, bool) {
		b, ok := bucketOf(s.batches.prefix, key)
		return b, ok && (policy == "" || b.Policy == policy)
	})
}

// Keys lists all that the store keeps for limiters, for tools that would else
// look at all keys of Redis twice: what [Store.Buckets] lists for all policies,
// and the policies that have exceptions in Redis, or had some, each as a Bucket
// with the Key "", which no bucket has.
func (s *Store) Keys(ctx context.Context, perSecond int, progress ...func(looked, all int64)) iter.Seq2[Bucket, error] {
	return s.list(ctx, s.batches.prefix, perSecond, progress, func(key string) (Bucket, bool) {
		if policy, ok := s.batches.policyOfExceptions(key); ok {
			return Bucket{Policy: policy}, true
		}
		return bucketOf(s.batches.prefix, key)
	})
}

// list lists what named finds in the keys that begin so, of one server after
// another.
func (s *Store) list(ctx context.Context, begins string, perSecond int, progress []func(looked, all int64), named func(key string) (Bucket, bool)) iter.Seq2[Bucket, error] {
	return func(yield func(Bucket, error) bool) {
		err := s.mistaken()
		var servers []redis.UniversalClient
		if err == nil {
			servers, err = s.batches.inOrder(ctx)
		}
		if err != nil {
			yield(Bucket{}, err)
			return
		}
		looked, all := int64(0), int64(0)
		for i := 0; i < len(servers) && len(progress) > 0; i++ {
			_ = s.batches.within(ctx, func(ctx context.Context) error { // a user may have no right to it
				n, err := servers[i].DBSize(ctx).Result()
				all += n
				return err
			})
		}
		add := func(n int) {
			looked += int64(n)
			for _, report := range progress {
				report(looked, all)
			}
		}
		for _, one := range servers {
			more := s.batches.scan(ctx, one, escapeGlob(begins)+"*", perSecond, add, func(key string, err error) bool {
				if err != nil {
					return yield(Bucket{}, err)
				}
				b, ok := named(key)
				return !ok || yield(b, nil)
			})
			if !more {
				return
			}
		}
	}
}

// inOrder returns a client of each server, in the order of their addresses.
func (s *batches) inOrder(ctx context.Context) (list []redis.UniversalClient, err error) {
	var mu sync.Mutex
	err = s.each(ctx, func(_ context.Context, one redis.UniversalClient) error {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, one)
		return nil
	})
	slices.SortFunc(list, func(a, b redis.UniversalClient) int {
		return cmp.Compare(settingsOfClient(a).address, settingsOfClient(b).address)
	})
	return list, withoutArguments(err)
}

// So many keys one SCAN looks at, at least and at most. For the most, Redis
// does nothing else for about a fifth of a millisecond.
const (
	leastScanned = 100
	mostScanned  = 1000
)

// scan gives yield the keys of one server, and the error that ends them. It
// reports whether to go on with another server.
func (s *batches) scan(ctx context.Context, one redis.UniversalClient, pattern string, perSecond int, looked func(int), yield func(key string, err error) bool) (more bool) {
	p := pace.New(perSecond, leastScanned, mostScanned)
	var keys []string
	for cursor := uint64(0); ; {
		count, began := p.Next(), time.Now()
		err := s.within(ctx, func(ctx context.Context) (err error) {
			keys, cursor, err = one.Scan(ctx, cursor, pattern, int64(count)).Result()
			return err
		})
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			yield("", ctx.Err())
			return false
		case err != nil:
			return yield("", diagnosed(settingsOfClient(one).address, withoutArguments(err)))
		}
		looked(count)
		for _, key := range keys {
			if !yield(key, nil) {
				return false
			}
		}
		if cursor == 0 {
			return true
		}
		if err := p.Wait(ctx, count, took); err != nil {
			yield("", err)
			return false
		}
	}
}

// globs escapes the characters that patterns of Redis give a meaning.
var globs = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`)

func escapeGlob(s string) string { return globs.Replace(s) }
