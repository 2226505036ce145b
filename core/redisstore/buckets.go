package redisstore

import (
	"cmp"
	"context"
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
// missing. Keys that this package did not name are left out. An error ends the list: it is that of [Store.Ping], or ctx's.
func (s *Store) Buckets(ctx context.Context, policy string, perSecond int, progress ...func(looked, all int64)) iter.Seq2[Bucket, error] {
	return func(yield func(Bucket, error) bool) {
		pattern := escapeGlob(s.batches.prefix) + "*"
		if policy != "" {
			pattern = escapeGlob(redisKey(s.batches.prefix, policy, "")) + "*"
		}
		err := s.scan(ctx, pattern, perSecond, progress, func(key string) bool {
			b, ok := bucketOf(s.batches.prefix, key)
			return !ok || policy != "" && b.Policy != policy || yield(b, nil)
		})
		if err != nil {
			yield(Bucket{}, err)
		}
	}
}

// ExceptionPolicies returns the names of the policies that have exceptions in Redis, or had some, sorted. It looks at all keys, as [Store.Buckets]
// does.
func (s *Store) ExceptionPolicies(ctx context.Context, perSecond int, progress ...func(looked, all int64)) (policies []string, err error) {
	prefix := s.batches.exceptionsKey("")
	err = s.scan(ctx, escapeGlob(prefix)+"*", perSecond, progress, func(key string) bool {
		if policy := decodedPolicy.Replace(strings.TrimPrefix(key, prefix)); s.batches.exceptionsKey(policy) == key {
			policies = append(policies, policy)
		}
		return true
	})
	slices.Sort(policies)
	return slices.Compact(policies), err
}

// scan gives yield the keys that a pattern describes, of one server after another, until it returns false.
func (s *Store) scan(ctx context.Context, pattern string, perSecond int, progress []func(looked, all int64), yield func(key string) bool) error {
	if err := s.mistaken(); err != nil {
		return err
	}
	servers, err := s.batches.server.each(ctx)
	c := counter{report: progress}
	for i := 0; i < len(servers) && len(progress) > 0; i++ {
		n, _ := servers[i].DBSize(ctx).Result()
		c.all += n
	}
	for i := 0; err == nil && i < len(servers); i++ {
		var more bool
		if more, err = scan(ctx, servers[i], pattern, perSecond, c.add, yield); !more {
			break
		}
	}
	return err
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

// scan gives yield the keys of one server. It reports whether to go on.
func scan(ctx context.Context, one redis.UniversalClient, pattern string, perSecond int, looked func(int), yield func(key string) bool) (more bool, err error) {
	p := pace.New(perSecond, leastScanned, mostScanned)
	for cursor := uint64(0); ; {
		count, began := p.Next(), time.Now()
		keys, next, err := scanOnce(ctx, one, cursor, pattern, count)
		took := time.Since(began)
		if err != nil {
			return false, diagnosed(address.Of(one), withoutArguments(err))
		}
		looked(count)
		for _, key := range keys {
			if !yield(key) {
				return false, nil
			}
		}
		if cursor = next; cursor == 0 {
			return true, nil
		}
		if err := p.Wait(ctx, count, took); err != nil {
			return false, err
		}
	}
}

// scanOnce sends one SCAN.
func scanOnce(ctx context.Context, one redis.UniversalClient, cursor uint64, pattern string, count int) (keys []string, next uint64, err error) {
	defer recovered(&err)
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
