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
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

// Buckets lists the buckets of a policy, or with "" those of all policies, for tools. It uses SCAN, on one server after another: each
// master of a Cluster, each shard of a Ring. Redis looks at all its keys for that, at most perSecond of them a second, and fewer while its
// answers take twice as long as usual, so that others hardly notice; 0 means as fast as it can. Other work goes on meanwhile.
//
// progress, if given, learns after each step how many keys were looked at, and how many there are: 0 if the user may not ask (DBSIZE).
//
// A bucket that exists all the time is listed, perhaps more than once. One that comes or goes meanwhile, or whose slot moves, may be
// missing. Keys that this package did not name are left out.
//
// An error with a server's address says that the buckets of this server are missing, or some of them: the list goes on with the next
// server, if the loop does. Any other error ends the list, such as ctx's.
func (s *Store) Buckets(ctx context.Context, policy string, perSecond int, progress ...func(looked, all int64)) iter.Seq2[Bucket, error] {
	return func(yield func(Bucket, error) bool) {
		pattern := escapeGlob(s.batches.prefix) + "*"
		if policy != "" {
			pattern = escapeGlob(redisKey(s.batches.prefix, policy, "")) + "*"
		}
		s.scan(ctx, pattern, perSecond, progress, func(key string, err error) bool {
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
func (s *Store) ExceptionPolicies(ctx context.Context, perSecond int, progress ...func(looked, all int64)) (policies []string, err error) {
	prefix := s.batches.exceptionsKey("")
	s.scan(ctx, escapeGlob(prefix)+"*", perSecond, progress, func(key string, failed error) bool {
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
func (s *Store) scan(ctx context.Context, pattern string, perSecond int, progress []func(looked, all int64), yield func(key string, err error) bool) {
	err := s.mistaken()
	var servers []redis.UniversalClient
	if err == nil {
		servers, err = s.batches.server.each(ctx)
	}
	if err != nil {
		yield("", err)
		return
	}
	c := counter{report: progress}
	for i := 0; i < len(servers) && len(progress) > 0; i++ {
		c.all += s.batches.server.keys(ctx, servers[i])
	}
	for _, one := range servers {
		if more := s.batches.server.scan(ctx, one, pattern, perSecond, c.add, yield); !more {
			return
		}
	}
}

// counter counts the keys that were looked at.
type counter struct {
	report      []func(looked, all int64)
	looked, all int64
}

func (c *counter) add(n int) {
	c.looked += int64(n)
	for _, report := range c.report {
		report(c.looked, c.all)
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

// So many keys one SCAN looks at, at least and at most. For the most, Redis does nothing else for about a fifth of a millisecond.
const (
	leastScanned = 100
	mostScanned  = 1000
)

// scan gives yield the keys of one server, and the error that ends them. It reports whether to go on with another server.
func (s *server) scan(ctx context.Context, one redis.UniversalClient, pattern string, perSecond int, looked func(int), yield func(key string, err error) bool) (more bool) {
	p := pace.New(perSecond, leastScanned, mostScanned)
	for cursor := uint64(0); ; {
		count, began := p.Next(), time.Now()
		keys, next, err := s.scanOnce(ctx, one, cursor, pattern, count)
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			yield("", ctx.Err())
			return false
		case err != nil:
			return yield("", diagnosed(address.Of(one), withoutArguments(err)))
		}
		looked(count)
		for _, key := range keys {
			if !yield(key, nil) {
				return false
			}
		}
		if cursor = next; cursor == 0 {
			return true
		}
		if err := p.Wait(ctx, count, took); err != nil {
			yield("", err)
			return false
		}
	}
}

// keys returns how many keys a server has, or 0 if it does not say so.
func (s *server) keys(ctx context.Context, one redis.UniversalClient) (n int64) {
	var err error
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, s.ConnectTimeout())
	defer cancel()
	n, err = one.DBSize(ctx).Result()
	return n
}

// scanOnce sends one SCAN.
func (s *server) scanOnce(ctx context.Context, one redis.UniversalClient, cursor uint64, pattern string, count int) (keys []string, next uint64, err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, s.ConnectTimeout())
	defer cancel()
	return one.Scan(ctx, cursor, pattern, int64(count)).Result()
}

// globs escapes the characters that patterns of Redis give a meaning.
var globs = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`)

func escapeGlob(s string) string { return globs.Replace(s) }
