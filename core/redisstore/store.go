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
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/breaker"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// Store keeps buckets in Redis, shared by every process that uses the same server and prefix. Each decision is one
// EVALSHA on one key, whatever the number of limits, so it is atomic on a standalone server, behind Sentinel, on a Ring
// and on a Cluster alike. The store on Redis works with Redis 6.0 or newer, Valkey and redict.
//
// Time is the server's: the clocks of the application's hosts don't matter. Every key has a TTL: the time until its
// buckets are full, and an eighth of that or three seconds at most.
//
// A store starts no goroutine that outlives its work. A store that [New] returned needs no closing: close the client.
//
// A store has at most four calls under way at once, to each server of a Cluster or a Ring, so it needs few connections. It has
// up to 12 if the server is half a millisecond away or farther, and up to 32 if it is distant, one for each 2 ms of the round
// trip, but no more than three quarters of the client's pool. A call that is stuck returns its connection after ten times the
// store's timeout if the client has ContextTimeoutEnabled, and otherwise when the client's ReadTimeout ends.
//
// The servers of a Cluster and a Ring share no calls, no queue and no breaker: one that does not answer concerns its own keys.
//
// A single decision is fastest if its caller's goroutine sends it. The store does that if the client returns in time: with
// ContextTimeoutEnabled, or if it is a *redis.Client without hooks or other functions of the application. A caller whose
// context is canceled meanwhile then returns late, by the store's timeout at most. All other callers return as soon as their
// context ends.
type Store struct {
	config  store.Config
	leases  leases
	denials denyCache
	flights flights
	server  server
	own     *redis.Client // of Open; nil: the client is the caller's
}

// Open returns a store on the server at url, such as "redis://user:password@localhost:6379/0", "rediss://…" for TLS, or
// "unix:///run/redis.sock". See [redis.ParseURL] for what a URL can set. The store has a client of its own, with
// ContextTimeoutEnabled, DialerRetries 1 and, unless url has a dial_timeout, a DialTimeout of a second, or of ten times the
// store's timeout if that is longer. All else are go-redis' defaults.
//
// Open does not connect: call [Store.Ping] to learn whether the store can decide. Open returns an error if it can't read url.
// Mistakes in options are reported as by [New].
func Open(url string, options ...Option) (*Store, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		if strings.Contains(url, "@") { // the error would show parts of the password
			return nil, errors.New("ratelimit: redisstore.Open url: must be such as redis://user:password@localhost:6379/0; characters such as / ? # in the password are percent-encoded (RL302)")
		}
		return nil, fmt.Errorf("ratelimit: redisstore.Open url: must be such as redis://localhost:6379/0: %w (RL302)", err)
	}
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1
	if o.DialTimeout == 0 {
		o.DialTimeout = connectTime(settingsOf(options, &store.Config{}).timeout)
	}
	client := redis.NewClient(o)
	s := New(client, options...)
	s.own = client
	return s, nil
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
	set := settingsOf(options, &s.config)
	s.denials = denyCache{horizon: set.horizon}
	s.server = server{clock: s.config.Clock, timeout: set.timeout, logger: s.log}
	s.flights = flights{sender: sender{server: &s.server, timeout: set.timeout, denials: &s.denials}, prefix: keyPrefix(set.prefix)}
	s.leases = leases{lender: lender{&s.flights, s.now, leaseIdle}, denials: &s.denials, most: set.lease}
	if c := reflect.ValueOf(client); !c.IsValid() || c.Kind() == reflect.Pointer && c.IsNil() {
		s.config.Mistake("redisstore.New client", nil, "must be a go-redis client")
		return s
	}
	if set.horizon > 0 && set.lease == 0 { // leases come first, so Do must look
		s.config.Owner, s.config.Recall = s, s.recall
	}
	s.server.use(client)
	s.flights.to(client, set, s.config.Clock != nil)
	return s
}

// Config is how the store was configured.
func (s *Store) Config() *store.Config { return &s.config }

// Do has r decided in one round trip, which it may share with other decisions. It needs none when the denial of r is
// known, or tokens for it are on lease.
func (s *Store) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	if len(s.config.Mistakes) > 0 { // NewLimiter does not see them where another store wraps this one
		return a, errors.Join(s.config.Mistakes...)
	}
	now := s.now()
	if s.config.Clock != nil { // what is known here must not answer for a clock that no server would take
		if _, err := microsOf(now); err != nil {
			return a, err
		}
	}
	if s.leases.spend(&r, &a, now) {
		return a, nil
	}
	if !s.denials.applies(&r) {
		return s.leases.askOrLease(ctx, r)
	}
	repeated, version := s.denials.repeat(&r, &a, instantOf(now))
	if repeated {
		return a, nil
	}
	a, err = s.leases.askOrLease(ctx, r)
	if err == nil && !a.Allowed {
		if heard := s.instant(); heard >= 0 {
			s.denials.keep(&r, a, version, instantOf(now), heard)
		}
	}
	return a, err
}

// DoTogether has requests decided in one round trip, by one script call. It returns [store.ErrApart] where the keys may be on
// different servers: on a Cluster and a Ring.
func (s *Store) DoTogether(ctx context.Context, requests []store.Request) ([]store.JointAnswer, error) {
	if len(s.config.Mistakes) > 0 {
		return nil, errors.Join(s.config.Mistakes...)
	}
	if s.server.scattered.Load() {
		return nil, store.ErrApart
	}
	if s.config.Clock != nil { // before leases are settled
		if _, err := microsOf(s.config.Clock()); err != nil {
			return nil, err
		}
	}
	if s.leases.most > 0 { // all steps together take no longer than one decision may
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.flights.timeout)
		defer cancel()
		if err := s.leases.settle(ctx, requests); err != nil {
			return nil, err
		}
	}
	answers, err := s.flights.askTogether(ctx, requests)
	if err != nil {
		s.leases.settleAgain(requests)
	}
	return answers, err
}

// recall is the Recall of the store's configuration.
func (s *Store) recall(hash uint64, policy, key string, p *bucket.Plan, n int64) (known *store.Answer, age int64) {
	now := s.instant()
	if now < 0 {
		return nil, 0 // Do says what is wrong with the clock
	}
	known, age, _ = s.denials.find(bucketOf{policy, key, hash}, p, n, now)
	return known, age
}

// Reset deletes the key of a policy's bucket, whatever it holds.
func (s *Store) Reset(ctx context.Context, policy, key string) error {
	if len(s.config.Mistakes) > 0 {
		return errors.Join(s.config.Mistakes...)
	}
	n := s.flights.nodes.find(redisKey(s.flights.prefix, policy, key))
	report, err := n.breaker.Enter()
	if err == nil {
		b := named(policy, key)
		settles := s.leases.forget(b) // with the key goes the hold in Redis
		err = s.del(ctx, b)
		report(err)
		if err != nil && settles != nil {
			go s.leases.giveBack(*settles)
		}
		s.leases.forget(b) // a lease that came before the server reset the key
	}
	if err != nil {
		return fmt.Errorf("reset in policy %q: %w", policy, err)
	}
	return nil
}

// del deletes a bucket's key, in a goroutine that runs on when nobody waits for it any more: go-redis does not stop
// reading when a context ends. A hook of the client that panics is a failure like others.
func (s *Store) del(ctx context.Context, b bucketOf) error {
	timeout := s.flights.timeout
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	done := make(chan error, 1)
	s.denials.giving(b)
	go func() {
		defer cancel()
		err := func() (err error) {
			defer recovered(&err)
			return withoutArguments(s.server.client.Del(own, redisKey(s.flights.prefix, b.policy, b.key)).Err())
		}()
		s.denials.given(b, err)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return breaker.CallerLeft{Cause: ctx.Err()}
	case <-time.After(timeout):
		return timeoutError(timeout)
	}
}

// Stats returns what the store did. It is safe for concurrent use and makes no call.
func (s *Store) Stats() storestats.Stats {
	b, t := &s.flights.breakers, &s.flights.traffic
	s.flights.nodes.forget()
	stats := storestats.Stats{
		Unreadable: s.config.Unreadable(),
		Opened:     b.Opened(), Away: b.Away(), Calls: t.calls.Load(), Decisions: t.decisions.Load(),
	}
	s.flights.nodes.each(func(n *node) { stats.Breaker = max(stats.Breaker, n.breaker.State()) })
	for i := range stats.Batches {
		stats.Batches[i] = t.batches[i].Load()
	}
	for i := range s.denials.shards {
		sh := &s.denials.shards[i]
		sh.mu.Lock()
		stats.Denied += sh.repeated
		sh.mu.Unlock()
	}
	for i := range s.leases.shards {
		sh := &s.leases.shards[i]
		sh.mu.Lock()
		stats.Leased += sh.spent
		sh.mu.Unlock()
	}
	return stats
}

// log is where the store's warnings go.
func (s *Store) log() *slog.Logger {
	if s.config.Logger != nil {
		return s.config.Logger
	}
	return slog.Default()
}

// start is where now counts from, and startInstant is the same as an instant.
var (
	start        = time.Now()
	startInstant = instantOf(start)
)

// now is the instant by which denials and leases are timed.
func (s *Store) now() time.Time {
	if s.config.Clock != nil {
		return s.config.Clock()
	}
	return start.Add(time.Since(start)) // time.Now, without a look at the wall's clock
}

// instant is now as an instant; -1 if it is out of range.
func (s *Store) instant() instant {
	if s.config.Clock != nil {
		at := s.config.Clock()
		if _, err := microsOf(at); err != nil {
			return -1
		}
		return instantOf(at)
	}
	return startInstant + instant(time.Since(start))
}
