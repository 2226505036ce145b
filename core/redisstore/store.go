// Package redisstore keeps buckets in Redis, for services of several processes.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	limiter, err := core.NewLimiter(redisstore.New(client), policy)
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Store keeps buckets in Redis, shared by every process that uses the same server and prefix. Each decision is one
// EVALSHA on one key, whatever the number of limits, so it is atomic on a standalone server, behind Sentinel, on a Ring
// and on a Cluster alike. It needs Redis 5 or newer.
//
// Time is the server's: the clocks of the application's hosts don't matter. Every key has a TTL: the time until its
// buckets are full, and a second.
//
// It starts no lasting goroutine and needs no closing; the client stays the caller's. At most four calls of a store are
// under way at once, so it needs few connections. To a distant server it is one call for each 2 ms of the round trip, up
// to 32, or three quarters of the client's pool. A call that is stuck returns its connection after twice the store's
// timeout if the client has ContextTimeoutEnabled, and when the client's ReadTimeout ends if not.
type Store struct {
	client    redis.UniversalClient
	scattered atomic.Bool // keys may be on different servers: a script call can't take several
	punctual  bool        // the client minds the deadlines of contexts

	config  core.StoreConfig
	prefix  string
	timeout time.Duration
	trip    int
	pause   time.Duration

	leases   leases
	denials  denyCache
	breaker  *breaker
	queue    queue
	traffic  traffic
	eviction evictionWatch
}

// New returns a store on a client of any topology. It does not connect: a server that can't be reached is met by the
// policy's OnFailure. Mistakes in its options are reported by [core.NewLimiter], or by every decision where another
// Store wraps this one.
func New(client redis.UniversalClient, options ...Option) *Store {
	s := &Store{client: client, prefix: defaultPrefix, timeout: defaultTimeout, trip: defaultTrip, pause: defaultPause}
	s.denials.horizon, s.denials.seed = defaultHorizon, maphash.MakeSeed()
	s.leases.idle, s.leases.seed = leaseIdle, s.denials.seed
	for _, o := range options {
		switch o := o.(type) {
		case nil:
		case option:
			o(s)
		default:
			o.ConfigureStore(&s.config)
		}
	}
	s.breaker = newBreaker(s.trip, s.pause, s.log)
	if c := reflect.ValueOf(client); !c.IsValid() || c.Kind() == reflect.Pointer && c.IsNil() {
		s.config.Mistake("redisstore.New client", nil, "must be a go-redis client")
		return s
	}
	s.scattered.Store(true)
	switch c := client.(type) {
	case *redis.Client: // of one server, so all keys are in one place
		s.scattered.Store(false)
		s.punctual = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		s.punctual = c.Options().ContextTimeoutEnabled
	case *redis.Ring:
		s.punctual = c.Options().ContextTimeoutEnabled
	}
	s.queue.room, s.queue.patience = flightRoom(client), s.timeout
	s.queue.expire, s.queue.spare = s.expire, s.spare
	if s.config.Clock != nil {
		s.queue.room = 1 // one after another, so that an injected clock's instants arrive in order
	}
	return s
}

// Config is how the store was configured.
func (s *Store) Config() *core.StoreConfig { return &s.config }

// Do has r decided in one round trip, which it may share with other decisions. It needs none when the denial of r is
// known, or tokens for it are on lease.
func (s *Store) Do(ctx context.Context, r core.Request) (a core.Answer, err error) {
	if len(s.config.Mistakes) > 0 { // NewLimiter does not see them where another store wraps this one
		return a, errors.Join(s.config.Mistakes...)
	}
	now := s.now()
	if s.spend(&r, &a, now) {
		return a, nil
	}
	if !s.denials.applies(&r) {
		return s.askOrLease(ctx, r)
	}
	repeated, version := s.denials.repeat(&r, &a, now)
	if repeated {
		return a, nil
	}
	a, err = s.askOrLease(ctx, r)
	if err == nil && !a.Allowed {
		s.denials.keep(&r, a, version, now, s.now())
	}
	return a, err
}

// ask has r decided by Redis.
func (s *Store) ask(ctx context.Context, r core.Request) (core.Answer, error) {
	answer, err := s.board(ctx, r)
	if err != nil {
		return core.Answer{}, fmt.Errorf("policy %q: %w", r.Policy(), err)
	}
	s.eviction.look(s)
	return answer, nil
}

// Reset deletes the key of a policy's bucket, whatever it holds.
func (s *Store) Reset(ctx context.Context, policy, key string) error {
	if len(s.config.Mistakes) > 0 {
		return errors.Join(s.config.Mistakes...)
	}
	report, err := s.breaker.enter()
	if err == nil {
		b := bucketOf{policy, key}
		held := s.forget(b) // with the key goes the hold in Redis
		err = s.del(ctx, b)
		report(err)
		if err != nil && held != nil {
			go s.giveBack(*held)
		}
		s.forget(b) // a lease that came before the server reset the key
	}
	if err != nil {
		return fmt.Errorf("reset in policy %q: %w", policy, err)
	}
	return nil
}

// del deletes a bucket's key, in a goroutine that runs on when nobody waits for it any more: go-redis does not stop
// reading when a context ends. A hook of the client that panics is a failure like others.
func (s *Store) del(ctx context.Context, b bucketOf) error {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	done := make(chan error, 1)
	s.denials.giving(b)
	go func() {
		defer cancel()
		err := func() (err error) {
			defer recovered(&err)
			return s.client.Del(own, redisKey(s.prefix, b.policy, b.key)).Err()
		}()
		s.denials.given(b, err)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return callerLeft{ctx.Err()}
	case <-time.After(s.timeout):
		return timeoutError(s.timeout)
	}
}

// callerLeft is the error of a caller's own context. It says nothing about Redis.
type callerLeft struct{ error }

func (e callerLeft) Unwrap() error { return e.error }

// bucketOf names a bucket by its policy and key.
type bucketOf struct{ policy, key string }

// of names the bucket that r asks.
func of(r *core.Request) bucketOf { return bucketOf{r.Policy(), r.Key()} }

// clone is b for keeping: its key may be a view of a buffer that its owner reuses.
func (b bucketOf) clone() bucketOf { return bucketOf{b.policy, strings.Clone(b.key)} }

// log is where the store's warnings go.
func (s *Store) log() *slog.Logger {
	if s.config.Logger != nil {
		return s.config.Logger
	}
	return slog.Default()
}

// began is where now counts from.
var began = time.Now()

// now is the instant by which denials and leases are timed.
func (s *Store) now() time.Time {
	if s.config.Clock != nil {
		return s.config.Clock()
	}
	return began.Add(time.Since(began)) // time.Now, without a look at the wall's clock
}
