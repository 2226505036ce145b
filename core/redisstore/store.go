// Package redisstore keeps buckets in Redis, for services of several processes.
//
//	store, err := redisstore.Open("redis://localhost:6379")
//	...
//	limiter, err := core.NewLimiter(store, policy)
//
// [New] makes a store on a go-redis client that you have, such as one of a Cluster.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denycache"
	"github.com/tokenbucket-go/ratelimit/core/lease"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// Store keeps buckets in Redis, shared by every process that uses the same server and prefix. Each decision is one
// EVALSHA on one key, whatever the number of limits, so it is atomic on a standalone server, behind Sentinel, on a Ring
// and on a Cluster alike. The store on Redis works with Redis 6.0 or newer, Valkey and redict.
//
// Time is the server's: the clocks of the application's hosts don't matter. Every key has a TTL: the time until its
// buckets are full, plus a margin of an eighth of that or three seconds at most.
//
// A store starts no goroutine that outlives its work. A store that [New] returned needs no closing: close the client.
//
// A store needs few connections, because concurrent decisions share script calls. To each server it has at most four calls in
// flight. Longer round trips allow more: one for each 0.1 ms up to 12, and one for each 2 ms up to 32. It never uses more than
// three quarters of the client's pool. A call that is stuck returns its connection after ten times the store's timeout if the
// client has ContextTimeoutEnabled, and otherwise when the client's ReadTimeout ends.
//
// The servers of a Cluster and a Ring share no calls, no queue and no breaker: one that does not answer concerns its own keys.
//
// A single decision is fastest if its caller's goroutine sends it. The store does that if the client has ContextTimeoutEnabled,
// because its commands then end with their contexts. A caller whose context is canceled meanwhile returns late, by the store's
// timeout at most. All other callers return as soon as their context ends.
type Store struct {
	batches batches
	denials *denycache.Store // around batches; nil without WithDenyCache
	leases  *lease.Store     // around denials or batches; nil without WithLease
	top     store.JointStore // the outermost of the three: decisions begin here
	own     *redis.Client    // the client that Open made; nil if the caller made it
}

// Open returns a store on the server at url, such as "redis://user:password@localhost:6379/0", "rediss://…" for TLS, or
// "unix:///run/redis.sock". See [redis.ParseURL] for what a URL can set. The store has a client of its own, with
// ContextTimeoutEnabled, DialerRetries 1 and, unless url has a dial_timeout, a DialTimeout of a second, or of ten times the
// store's timeout if that is longer. All else are go-redis' defaults.
//
// Open does not connect: call [Store.Ping] to learn whether the store can decide. Open returns a [core.ConfigError] if it can't read url.
// Mistakes in options are reported as by [New].
func Open(url string, options ...Option) (*Store, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		if strings.Contains(url, "@") { // the error would show parts of the password
			return nil, badURL(url, "must be such as redis://user:password@localhost:6379/0; characters such as / ? # in the password are percent-encoded")
		}
		return nil, badURL(url, "must be such as redis://localhost:6379/0: "+err.Error())
	}
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1
	if o.DialTimeout == 0 {
		o.DialTimeout = connectTimeout(settingsOf(options, &store.Config{}).timeout)
	}
	client, err := clientOf(o)
	if err != nil {
		return nil, badURL(url, "has an option that no client can have: "+err.Error())
	}
	s := New(client, options...)
	s.own = client
	return s, nil
}

// badURL returns the error of Open. It does not show a url that may have a password.
func badURL(url, reason string) error {
	value := any(url)
	if strings.Contains(url, "@") {
		value = hidden{}
	}
	return fmt.Errorf("ratelimit: %w", &core.ConfigError{Field: "redisstore.Open url", Value: value, Reason: reason})
}

// hidden stands in messages for a value that they must not show.
type hidden struct{}

func (hidden) String() string { return "(not shown)" }

// clientOf returns a client with options that a URL has set. The error is the panic of go-redis, such as for a pool_size of -1.
func clientOf(o *redis.Options) (client *redis.Client, err error) {
	defer recovered(&err)
	return redis.NewClient(o), nil
}

// Close closes the connections of a store that [Open] made. Its decisions fail from then on. On other stores it does
// nothing.
func (s *Store) Close() error {
	if s.own == nil {
		return nil
	}
	return s.own.Close()
}

// New returns a store on any go-redis client. It does not connect: while the server can't be reached, the policy's OnFailure
// decides. [core.NewLimiter] reports mistakes in the options. If another Store wraps this one, every decision reports them.
func New(client redis.UniversalClient, options ...Option) *Store {
	s := &Store{}
	b := &s.batches
	set := settingsOf(options, &b.config)
	b.sender = sender{server: &server{clock: b.config.Clock, timeout: set.timeout, logger: b.log}, timeout: set.timeout}
	b.prefix = keyPrefix(set.prefix)
	s.top = b
	if c := reflect.ValueOf(client); !c.IsValid() || c.Kind() == reflect.Pointer && c.IsNil() {
		b.config.ArgumentError("redisstore.New client", nil, "must be a go-redis client")
		return s
	}
	if set.horizon > 0 {
		s.denials = denycache.New(s.top, set.horizon)
		s.top = s.denials
	}
	if set.lease > 0 {
		s.leases = lease.New(s.top, set.lease, set.timeout)
		s.top = s.leases
	}
	b.server.setClient(client)
	b.attach(client, set, b.config.Clock != nil)
	return s
}

// Config returns how the store was configured.
func (s *Store) Config() *store.Config { return &s.batches.config }

// mistaken returns an error if there are mistakes in the options. NewLimiter reports them too, but does not see them if
// another store wraps this one.
func (s *Store) mistaken() error {
	if len(s.batches.config.ArgumentErrors) > 0 {
		return errors.Join(s.batches.config.ArgumentErrors...)
	}
	return nil
}

// Do decides r in one round trip, which it may share with other decisions. It needs no round trip if the deny cache has a
// denial of r, or the key's lease has tokens for it.
func (s *Store) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if err := s.mistaken(); err != nil {
		return store.Answer{}, err
	}
	return s.top.Do(ctx, r)
}

// DoTogether decides requests in one round trip, by one script call: all take, or none does. It returns [store.ErrApart] on a
// Cluster and a Ring, where the keys may be on different servers.
func (s *Store) DoTogether(ctx context.Context, requests []store.Request) ([]store.JointAnswer, error) {
	if err := s.mistaken(); err != nil {
		return nil, err
	}
	return s.top.DoTogether(ctx, requests)
}

// Reset deletes the key of a policy's bucket, whatever it holds.
func (s *Store) Reset(ctx context.Context, policy, key string) error {
	if err := s.mistaken(); err != nil {
		return err
	}
	return s.top.Reset(ctx, policy, key)
}

// Stats returns counts of what the store did. It is safe for concurrent use and sends nothing to Redis.
func (s *Store) Stats() storestats.Stats {
	stats := s.batches.stats()
	if s.denials != nil {
		stats.Denied = s.denials.Repeated()
	}
	if s.leases != nil {
		stats.Leased = s.leases.Used()
	}
	return stats
}
