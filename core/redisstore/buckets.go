package redisstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/address"
	"github.com/tokenbucket-go/ratelimit/core/store"
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
// A bucket that exists all the time is listed, perhaps more than once. One that
// comes or goes meanwhile, or whose slot moves, may be missing. Keys that this
// package did not name are left out.
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

// ExceptionPolicies returns the names of the policies that have exceptions in
// Redis, or had some, sorted. It looks at all keys, as [Store.Buckets] does.
// The error joins those of servers: the names are those that the others have.
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

// scan gives yield the keys that a pattern describes, of one server after
// another, and the error of a server in its turn, until yield returns false.
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

// So many keys one SCAN looks at, at least and at most. For the most, Redis
// does nothing else for about a fifth of a millisecond.
const (
	leastScanned = 100
	mostScanned  = 1000
)

// scan gives yield the keys of one server, and the error that ends them. It
// reports whether to go on with another server.
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

// CopyTo copies the bucket b to another store, or to the same one under the
// name as, with its TTL. It is for tools that move limits to another server or
// another policy's name. limits has the names of limits that change with the
// policy's name, by the old ones: those of limits that were given none. CopyTo
// reports whether it copied: b must exist, and as must not, unless replace is
// set.
//
// What requests take from b between the read and the write is not copied.
// Leases of the two stores are settled before, but not those of other
// processes. It costs two round trips to each store, and one more for a lease.
// Errors are those of [Store.State].
func (s *Store) CopyTo(ctx context.Context, b Bucket, to *Store, as Bucket, limits map[string]string, replace bool) (copied bool, err error) {
	if err := s.mistaken(); err != nil {
		return false, err
	}
	if err := to.mistaken(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.batches.server.ConnectTimeout()+to.batches.server.ConnectTimeout())
	defer cancel()
	var found kept
	err = s.around(ctx, b, func() (err error) {
		found, err = s.batches.load(ctx, b)
		return err
	})
	if err == nil && found.exists {
		if err = found.rename(limits); err != nil {
			return false, &failure{inPolicy(b.Policy), err}
		}
		err = to.around(ctx, as, func() (err error) {
			copied, err = to.batches.save(ctx, as, found, replace)
			return err
		})
	}
	if err != nil {
		return false, &failure{inPolicy(b.Policy), withoutArguments(err)}
	}
	return copied, nil
}

// around calls do, which reads or writes a bucket, while s has no lease of it.
func (s *Store) around(ctx context.Context, b Bucket, do func() error) error {
	if s.leases == nil {
		return do()
	}
	return s.leases.Around(ctx, b.Policy, b.Key, do)
}

// kept is what Redis keeps under a key.
type kept struct {
	exists bool
	text   string            // of a key that is a string
	fields map[string]string // of one that is a hash; nil: it is a string
	ttl    time.Duration
}

// load reads a bucket.
func (s *batches) load(ctx context.Context, b Bucket) (k kept, err error) {
	defer recovered(&err)
	key := redisKey(s.prefix, b.Policy, b.Key)
	p := s.server.client.Pipeline()
	text, fields, ttl := p.Get(ctx, key), p.HGetAll(ctx, key), p.PTTL(ctx, key)
	_, _ = p.Exec(ctx) // one of the first two is an error of the key's type
	switch {
	case ttl.Err() != nil:
		return k, ttl.Err()
	case ttl.Val() <= 0: // there is no such key, or it is no bucket: these have a TTL
		return k, nil
	case text.Err() == nil:
		return kept{exists: true, text: text.Val(), ttl: ttl.Val()}, nil
	case fields.Err() == nil && len(fields.Val()) > 0:
		return kept{exists: true, fields: fields.Val(), ttl: ttl.Val()}, nil
	}
	return k, fields.Err()
}

// save writes a bucket. It reports whether it did: not if there is one and
// replace is not set.
func (s *batches) save(ctx context.Context, b Bucket, k kept, replace bool) (saved bool, err error) {
	defer recovered(&err)
	key, client := redisKey(s.prefix, b.Policy, b.Key), s.server.client
	if !replace {
		ttl, err := client.PTTL(ctx, key).Result()
		if err != nil || ttl != -2 { // -2 means that there is no such key
			return false, err
		}
	}
	write := func(p redis.Pipeliner) error {
		if k.fields == nil {
			p.Set(ctx, key, k.text, k.ttl)
			return nil
		}
		p.Del(ctx, key)
		p.HSet(ctx, key, k.fields)
		p.PExpire(ctx, key, k.ttl)
		return nil
	}
	if s.nodes.clientOf == nil {
		_, err = client.TxPipelined(ctx, write)
		return err == nil, err
	}
	// If the key's server does not answer, the client of a Cluster would send
	// MULTI to another one, and wait for it. But only that client follows a
	// slot that has moved: a transaction that is refused says no more than
	// EXECABORT.
	one, err := s.nodes.clientOf(ctx, key)
	if err == nil {
		_, err = one.TxPipelined(ctx, write)
	}
	if fromServer(err) {
		_, err = client.TxPipelined(ctx, write)
	}
	return err == nil, err
}

// rename gives limits other names: their tags, in the records and in the names
// of fields.
func (k *kept) rename(limits map[string]string) (err error) {
	tags := make(map[string]string)
	for old, name := range limits {
		for _, mode := range []bucket.Mode{bucket.Continuous, bucket.Concurrent} { // the tag depends on whether it is Concurrent
			tags[tagText(old, mode)] = tagText(name, mode)
		}
	}
	if len(tags) == 0 {
		return nil
	}
	if k.fields == nil {
		k.text, err = retagged(k.text, tags)
		return err
	}
	fields := make(map[string]string, len(k.fields))
	for name, value := range k.fields {
		if name == "" {
			value, err = retagged(value, tags)
		} else if len(name) > 4 && tags[name[:4]] != "" {
			name = tags[name[:4]] + name[4:]
		}
		fields[name] = value
	}
	k.fields = fields
	return err
}

// tagText is a limit's tag as it is stored.
func tagText(name string, mode bucket.Mode) string {
	return string(binary.BigEndian.AppendUint32(nil, bucket.TagOf(name, mode)))
}

// retagged returns records with other tags.
func retagged(records string, tags map[string]string) (string, error) {
	var b strings.Builder
	for records != "" {
		size := bucket.RecordSize
		if len(records) < size {
			return "", &store.StateError{Reason: bucket.ErrUnreadable.Error()}
		}
		before := records[:4]
		tag := cmp.Or(tags[before], before)
		b.WriteString(tag + records[4:size])
		if records = records[size:]; strings.HasPrefix(records, before) && len(records) >= bucket.CutSize {
			b.WriteString(tag + records[4:bucket.CutSize])
			records = records[bucket.CutSize:]
		}
		size = 0
		if strings.HasPrefix(records, "\x00\x00\x00\x00") && len(records) >= bucket.HoldsSize {
			front, pages := short(records[bucket.HoldsSize-11:]), short(records[bucket.HoldsSize-9:])
			size = bucket.HoldsSize + front*bucket.HoldSize + pages*(2+bucket.PageHead)
		}
		if len(records) < size {
			return "", &store.StateError{Reason: bucket.ErrUnreadable.Error()}
		}
		b.WriteString(records[:size])
		records = records[size:]
	}
	return b.String(), nil
}

// endOfPrefix ends a prefix that could be taken for another prefix and a
// policy's name: see keyPrefix.
const endOfPrefix = "%:"

// keyPrefix returns how all keys of a store with this prefix begin. No two
// prefixes share a key. A prefix with a single colon, at its end, stays as it
// is: "ratelimit:". Any other is followed by "%:": "app:v2:" becomes
// "app:v2:%:". Otherwise the prefix "app:" with the policy "v2" would have the
// same keys. redisKey writes no "%:" behind a prefix.
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
	printable.Percent(&b, policy, ":{}%")
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
