package redisstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// CopyTo copies the bucket b to another store, or to the same one under the name as, with its TTL. It is for tools that move limits to
// another server or another policy's name. limits has the names of limits that change with the policy's name, by the old ones: those of
// limits that were given none. CopyTo reports whether it copied: b must exist, and as must not, unless replace is set.
//
// What requests take from b between the read and the write is not copied. Leases of the two stores are settled before, but not those of
// other processes. It costs two round trips to each store, and one more for a lease. Errors are those of [Store.State].
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

// save writes a bucket. It reports whether it did: not if there is one and replace is not set.
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
	// If the key's server does not answer, the client of a Cluster would send MULTI to another one, and wait for it. But only that client
	// follows a slot that has moved: a transaction that is refused says no more than EXECABORT.
	one, err := s.nodes.clientOf(ctx, key)
	if err == nil {
		_, err = one.TxPipelined(ctx, write)
	}
	if fromServer(err) {
		_, err = client.TxPipelined(ctx, write)
	}
	return err == nil, err
}

// rename gives limits other names: their tags, in the records and in the names of fields.
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
