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

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/address"
)

// Buckets lists the buckets of a policy, or with "" those of all policies, for tools. It uses SCAN, on one server after another: each
// master of a Cluster, each shard of a Ring. Redis looks at all its keys for that, at most perSecond of them a second; 0 means as
// fast as it can. Other work goes on meanwhile.
//
// A bucket that exists all the time is listed, perhaps more than once. One that comes or goes meanwhile, or whose slot moves, may be
// missing. Keys that this package did not name are left out.
//
// An error with a server's address says that the buckets of this server are missing, or some of them: the list goes on with the next
// server, if the loop does. Any other error ends the list, such as ctx's.
func (s *Store) Buckets(ctx context.Context, policy string, perSecond int) iter.Seq2[Bucket, error] {
	return func(yield func(Bucket, error) bool) {
		pattern := escapeGlob(s.batches.prefix) + "*"
		if policy != "" {
			pattern = escapeGlob(redisKey(s.batches.prefix, policy, "")) + "*"
		}
		s.scan(ctx, pattern, perSecond, func(key string, err error) bool {
			if err != nil {
				return yield(Bucket{}, err)
			}
			b, ok := bucketOf(s.batches.prefix, key)
			return !ok || policy != "" && b.Policy != policy || yield(b, nil)
		})
	}
}

// ExceptionPolicies returns the names of the policies that have exceptions in Redis, or had some, sorted. It looks at all keys, as [Store.Buckets]
// does. The error joins those of servers: the names are those that the others have.
func (s *Store) ExceptionPolicies(ctx context.Context, perSecond int) (policies []string, err error) {
	prefix := s.batches.exceptionsKey("")
	s.scan(ctx, escapeGlob(prefix)+"*", perSecond, func(key string, failed error) bool {
		if failed != nil {
			err = errors.Join(err, failed)
		} else if policy := decodedPolicy.Replace(strings.TrimPrefix(key, prefix)); s.batches.exceptionsKey(policy) == key {
			policies = append(policies, policy)
		}
		return true
	})
	slices.Sort(policies)
	return slices.Compact(policies), err
}

// scan gives yield the keys that a pattern describes, of one server after another, and the error of a server in its turn, until yield
// returns false.
func (s *Store) scan(ctx context.Context, pattern string, perSecond int, yield func(key string, err error) bool) {
	err := s.mistaken()
	var servers []redis.UniversalClient
	if err == nil {
		servers, err = s.batches.server.each(ctx)
	}
	if err != nil {
		yield("", err)
		return
	}
	for _, one := range servers {
		if more := s.batches.server.scan(ctx, one, pattern, perSecond, yield); !more {
			return
		}
	}
}

// each returns a client of each server, in the order of their addresses.
func (s *server) each(ctx context.Context) (list []redis.UniversalClient, err error) {
	var mu sync.Mutex
	err = s.Each(ctx, func(_ context.Context, one redis.UniversalClient, _ bool) error {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, one)
		return nil
	})
	slices.SortFunc(list, func(a, b redis.UniversalClient) int { return cmp.Compare(address.Of(a), address.Of(b)) })
	return list, withoutArguments(err)
}

const (
	mostScanned  = 1000 // keys that one SCAN looks at: Redis does nothing else for about a fifth of a millisecond
	scansASecond = 20   // if there is a rate
)

// scan gives yield the keys of one server, and the error that ends them. It reports whether to go on with another server.
func (s *server) scan(ctx context.Context, one redis.UniversalClient, pattern string, perSecond int, yield func(key string, err error) bool) (more bool) {
	count := mostScanned
	if perSecond > 0 {
		count = min(mostScanned, max(1, perSecond/scansASecond))
	}
	began, scanned := time.Now(), 0
	for cursor := uint64(0); ; {
		keys, next, err := s.scanOnce(ctx, one, cursor, pattern, count)
		switch {
		case ctx.Err() != nil:
			yield("", ctx.Err())
			return false
		case err != nil:
			return yield("", diagnosed(address.Of(one), withoutArguments(err)))
		}
		for _, key := range keys {
			if !yield(key, nil) {
				return false
			}
		}
		if cursor = next; cursor == 0 {
			return true
		}
		if scanned += count; perSecond > 0 {
			if err := sleepUntil(ctx, began.Add(time.Duration(scanned)*time.Second/time.Duration(perSecond))); err != nil {
				yield("", err)
				return false
			}
		}
	}
}

// scanOnce sends one SCAN.
func (s *server) scanOnce(ctx context.Context, one redis.UniversalClient, cursor uint64, pattern string, count int) (keys []string, next uint64, err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, s.ConnectTimeout())
	defer cancel()
	return one.Scan(ctx, cursor, pattern, int64(count)).Result()
}

// sleepUntil waits until t, or until ctx ends.
func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// globs escapes the characters that patterns of Redis give a meaning.
var globs = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`)

func escapeGlob(s string) string { return globs.Replace(s) }
