// Package redisstore keeps buckets in Redis, for services of several processes.
//
//	store, err := redisstore.Open("redis://localhost:6379")
//	...
//	limiter, err := core.NewLimiter(store, policy)
//
// [New] makes a store on a go-redis client that you have, such as one of a
// Cluster.
//
// See [docs/failure.md].
//
// [docs/failure.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/failure.md
package redisstore

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// Store keeps buckets in Redis, shared by every process that uses the same
// server and prefix. Each decision is one EVALSHA, whatever the number of
// limits. What is stored of a bucket is in one hash slot, so a decision is atomic
// on a single server, behind Sentinel, on a Ring and on a Cluster alike. The
// server may be Redis 6.0 or newer, Valkey or redict. A Store is safe for
// concurrent use.
//
// Time is the server's. Every key has a TTL: until all limits are full, all cuts
// paid and all holds over, an eighth of that time longer, and 3 s. Its holds have
// a key too, which lives another 3 s.
//
// A Store starts no goroutine that outlives its work. If [New] returned it, it
// needs no closing: close the client, after [Store.Close] if it has leases.
//
// Concurrent decisions share script calls. A server works on at most 4 of a Store
// at once, on 8 while 64 decisions wait, and on up to 32 if none was sent for 2
// ms. Of a pool of more than 4 connections they leave a quarter to others. The
// servers of a Cluster or a Ring share no calls, no queue and no breaker: one that
// does not answer delays its own keys only.
//
// If the client has ContextTimeoutEnabled, so that commands end with their
// contexts, the caller's goroutine sends a single decision, which is fastest. A
// caller whose context is canceled meanwhile returns late, by the store's
// timeout at most. All others return as soon as their context ends. Without
// ContextTimeoutEnabled, a call that is stuck holds its connection until the
// client's ReadTimeout ends.
type Store struct {
	batches batches
	denials *denyCache       // around batches; nil after WithDenyCache(0)
	leases  *leases          // around denials or batches; nil without WithLease
	top     store.JointStore // the outermost of the three, which is asked first
	own     *redis.Client    // the client that Open made; nil if New was called

	memories sync.Map // of exceptions by policy: *exceptionMemory
}

// Open returns a store on the server at url, such as
// "redis://user:password@localhost:6379/0", "rediss://…" for TLS, or
// "unix:///run/redis.sock": see [ParseURL]. In a user and a password,
// characters such as / ? # @ % are percent-encoded. It makes a client with
// ContextTimeoutEnabled and DialerRetries 1. Unless url has a dial_timeout, the
// DialTimeout is a second, or ten times the store's timeout if that is longer.
// Everything else is go-redis' default. Close the Store when you no longer need
// it.
//
// Open does not connect: see [Store.Ping]. It refuses a url of any other form
// with a core.ConfigError, which shows no part of it: for several servers, give
// [New] a client. Mistakes in options are reported as by New.
func Open(url string, options ...Option) (*Store, error) {
	o, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = connectTimeoutOf(settingsOf(options, &store.Config{}).timeout)
	}
	client, err := clientOf(o)
	if err != nil {
		return nil, badURL(badOption)
	}
	s := New(client, options...)
	s.own = client
	return s, nil
}

// clientOf returns a client with the options of a URL. It returns an error if
// go-redis panics, such as for a pool_size of -1.
func clientOf(o *redis.Options) (client *redis.Client, err error) {
	defer recovered(&err)
	return redis.NewClient(o), nil
}

// Close waits for slots that middleware releases just now, for ten times the
// timeout at most, gives leases back, and closes the client that [Open] made.
// From then on decisions fail. Call it when the last request is over, and after
// [New] before the client is closed.
func (s *Store) Close() error {
	s.Config().Limiters.Releases.WaitForAll(10 * s.batches.timeout)
	if s.leases != nil {
		s.leases.GiveBack()
	}
	if s.own == nil {
		return nil
	}
	return s.own.Close()
}

// New returns a store on any go-redis client. It does not connect: while the
// server can't be reached, the policy's OnFailure decides. [core.NewLimiter]
// reports mistakes in the options. If a store around this one hides them from
// it, every decision does.
func New(client redis.UniversalClient, options ...Option) *Store {
	s := &Store{}
	b := &s.batches
	set := settingsOf(options, &b.config)
	b.prefix, b.timeout = keyPrefix(set.prefix), set.timeout
	s.top = b
	if c := reflect.ValueOf(client); !c.IsValid() || c.Kind() == reflect.Pointer && c.IsNil() {
		b.config.ArgumentError("redisstore.New client", nil, "must be a go-redis client")
		return s
	}
	if !dialable(client) {
		b.config.ArgumentError("redisstore.New client", hidden{}, badAddr)
		return s
	}
	if set.horizon > 0 {
		s.denials = &denyCache{next: s.top, config: &b.config, horizon: set.horizon}
		s.top = s.denials
	}
	if set.lease > 0 {
		s.leases = &leases{next: s.top, config: &b.config, most: set.lease}
		s.top = s.leases
	}
	b.open(client, set)
	return s
}

// Config returns the store's configuration.
func (s *Store) Config() *store.Config { return &s.batches.config }

// mistaken returns the mistakes in the options, or nil.
func (s *Store) mistaken() error {
	if len(s.batches.config.ArgumentErrors) == 0 {
		return nil
	}
	var errs []error
	for _, e := range s.batches.config.ArgumentErrors {
		errs = append(errs, &core.ConfigError{Field: e.Field, Value: e.Value, Reason: e.Reason})
	}
	return errors.Join(errs...)
}

// ask calls do, which asks Redis for a tool and not for a decision: see
// batches.within. The error names the policy.
func (s *Store) ask(ctx context.Context, policy string, do func(ctx context.Context) error) error {
	if err := s.mistaken(); err != nil {
		return err
	}
	if err := s.batches.within(ctx, do); err != nil {
		return &failure{inPolicy(policy), withoutArguments(err)}
	}
	return nil
}

// Do decides r in one round trip, which it may share with other decisions; in
// none, if the deny cache has a denial of r or the key's lease has tokens for
// it.
func (s *Store) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if err := s.mistaken(); err != nil {
		return store.Answer{}, err
	}
	return s.top.Do(ctx, r)
}

// DoTogether decides requests by one script call, so either all take tokens or
// none does. On a Cluster or a Ring it returns [store.ErrApart] for several
// buckets, because their keys may be on different servers.
func (s *Store) DoTogether(ctx context.Context, requests []store.Request) ([]store.Answer, error) {
	if err := s.mistaken(); err != nil {
		return nil, err
	}
	return s.top.DoTogether(ctx, requests)
}

// Reset deletes the bucket of a policy and key with all that is held of it,
// whatever its keys contain. The bucket is full then.
func (s *Store) Reset(ctx context.Context, policy, key string) error {
	if err := s.mistaken(); err != nil {
		return err
	}
	return s.top.Reset(ctx, policy, key)
}

// Stats returns counts of what the store has done. It sends nothing to Redis.
func (s *Store) Stats() storestats.Stats {
	stats := s.batches.stats()
	if s.denials != nil {
		stats.Denied = s.denials.Repeated()
	}
	if s.leases != nil {
		stats.Leased = s.leases.Used()
	}
	stats.Exceptions = s.exceptionStats()
	return stats
}
