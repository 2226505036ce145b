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

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

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
// A bucket that exists all the time is listed once. One that comes or goes
// meanwhile may be missing. One whose slot moves may be missing or listed again.
// Keys that this package did not name are left out.
//
// An error with a server's address says that the buckets of this server are
// missing, or some of them: the list goes on with the next server, if the loop
// does. Any other error ends the list, such as ctx's.
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

// Keys lists all that the store keeps for limiters, for tools that would else
// look at all keys of Redis twice: what [Store.Buckets] lists for all policies,
// and the policies that have exceptions in Redis, or had some, each as a Bucket
// with the Key "", which no bucket has.
func (s *Store) Keys(ctx context.Context, perSecond int, progress ...func(looked, all int64)) iter.Seq2[Bucket, error] {
	return func(yield func(Bucket, error) bool) {
		s.scan(ctx, escapeGlob(s.batches.prefix)+"*", perSecond, progress, func(key string, err error) bool {
			if err != nil {
				return yield(Bucket{}, err)
			}
			if policy, ok := s.batches.policyOfExceptions(key); ok {
				return yield(Bucket{Policy: policy}, nil)
			}
			b, ok := bucketOf(s.batches.prefix, key)
			return !ok || yield(b, nil)
		})
	}
}

// scan gives yield the keys that a pattern describes, of one server after
// another, and the error of a server in its turn, until yield returns false.
func (s *Store) scan(ctx context.Context, pattern string, perSecond int, progress []func(looked, all int64), yield func(key string, err error) bool) {
	err := s.mistaken()
	var servers []redis.UniversalClient
	if err == nil {
		servers, err = s.batches.inOrder(ctx)
	}
	if err != nil {
		yield("", err)
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
		if more := s.batches.scan(ctx, one, pattern, perSecond, add, yield); !more {
			return
		}
	}
}

// inOrder returns a client of each server, in the order of their addresses.
func (s *server) inOrder(ctx context.Context) (list []redis.UniversalClient, err error) {
	var mu sync.Mutex
	err = s.each(ctx, func(_ context.Context, one redis.UniversalClient, _ bool) error {
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
func (s *server) scan(ctx context.Context, one redis.UniversalClient, pattern string, perSecond int, looked func(int), yield func(key string, err error) bool) (more bool) {
	p, listed := pace.New(perSecond, leastScanned, mostScanned), new(recent)
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
			if !listed.has(key) && !yield(key, nil) {
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

// recent has the keys that a scan listed last, so many at least. When Redis
// shrinks its table of keys, SCAN lists again the last few that fall into the
// place where it goes on, and no others.
type recent struct{ last, before map[string]bool }

const fewRecent = 5 * mostScanned

// has reports whether key was listed, and notes it.
func (r *recent) has(key string) bool {
	if r.last[key] || r.before[key] {
		return true
	}
	if r.last == nil || len(r.last) == fewRecent {
		r.last, r.before = make(map[string]bool, fewRecent), r.last
	}
	r.last[key] = true
	return false
}

// globs escapes the characters that patterns of Redis give a meaning.
var globs = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`)

func escapeGlob(s string) string { return globs.Replace(s) }

// endOfPrefix ends a prefix that could be taken for another prefix and a
// policy's name: see keyPrefix.
const endOfPrefix = "%:"

// keyPrefix returns how all keys of a store with this prefix begin. No two
// prefixes share a key. A prefix with a single colon, at its end, stays as it
// is. Any other is followed by "%:", which redisKey writes nowhere: "app:v2:"
// becomes "app:v2:%:", because "app:" with the policy "v2" has "app:v2:".
func keyPrefix(prefix string) string {
	if strings.IndexByte(prefix, ':') == len(prefix)-1 && prefix != "" && !strings.HasSuffix(prefix, endOfPrefix) {
		return prefix
	}
	return prefix + endOfPrefix
}

// redisKey returns the Redis key of a policy's bucket: prefix, which must come
// from keyPrefix, then policy, ':' and key. Example: the policy "a:b" and the
// key "x{1}" with the prefix "ratelimit:" are "ratelimit:a%3Ab:x%7B1%7D".
// Different buckets have different Redis keys:
//
//   - ':' is percent-encoded in the policy, so the first one behind the prefix
//     ends the policy
//   - braces are percent-encoded, so no client can choose the Cluster hash slot
//     of its key
//   - '%' is percent-encoded in the policy, and in the key if it would read as
//     an encoded byte or as the end of a prefix
func redisKey(prefix, policy, key string) string {
	var b strings.Builder
	b.Grow(len(prefix) + len(policy) + 1 + len(key))
	b.WriteString(prefix)
	printable.Percent(&b, policy, specialInPolicy)
	b.WriteByte(':')
	for i := range len(key) {
		switch c := key[i]; {
		case c == '{', c == '}', c == '%' && encoded(key[i+1:]):
			printable.PercentByte(&b, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// holdsKey returns the Redis key of the holds of a bucket whose Redis key is
// key. It is in the same hash slot of a Cluster, because the braces of a prefix
// are those of a hash tag: see bracesAreTag.
func holdsKey(prefix, key string) string { return prefix + endOfPrefix + "{" + key + "}" }

// bracesAreTag reports whether a prefix has no braces, or a hash tag, which
// decides the hash slot of all keys. With half a hash tag, a key and that of its
// holds would have different ones.
func bracesAreTag(prefix string) bool {
	_, tag, found := strings.Cut(prefix, "{")
	if !found {
		return !strings.Contains(prefix, "}")
	}
	return strings.IndexByte(tag, '}') > 0
}

// specialInPolicy are the bytes that are percent-encoded in a policy's name.
const specialInPolicy = ":{}%"

func encodedPolicy(policy string) string {
	var b strings.Builder
	printable.Percent(&b, policy, specialInPolicy)
	return b.String()
}

// encoded reports whether '%' and s would read as an encoded '{', '}' or '%',
// or as the end of a prefix.
func encoded(s string) bool {
	return strings.HasPrefix(s, "7B") || strings.HasPrefix(s, "7D") || strings.HasPrefix(s, "25") || strings.HasPrefix(s, ":")
}

// Bucket names a bucket in Redis.
type Bucket struct {
	Policy string // the policy's name
	Key    string // the limiter's key, as the store has it: see [store.Key] and [core.Limiter.WithStoredKeys]
}

// bucketOf is the inverse of redisKey. ok is false for a key that redisKey did
// not write behind the prefix.
func bucketOf(prefix, redis string) (b Bucket, ok bool) {
	name, ok := strings.CutPrefix(redis, prefix)
	if !ok {
		return b, false
	}
	policy, key, ok := strings.Cut(name, ":")
	if !ok || key == "" {
		return b, false
	}
	b = Bucket{decodedPolicy.Replace(policy), decodedKey.Replace(key)}
	return b, redisKey(prefix, b.Policy, b.Key) == redis
}

var (
	decodedPolicy = strings.NewReplacer("%3A", ":", "%7B", "{", "%7D", "}", "%25", "%")
	decodedKey    = strings.NewReplacer("%7B", "{", "%7D", "}", "%25", "%")
)
