package core

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	defaultPrefix  = "ratelimit:"
	defaultTimeout = 100 * time.Millisecond
)

// RedisStore keeps buckets in Redis, shared by every process that uses the same server and prefix.
// Each decision is one EVALSHA on one key, whatever the number of limits, so it is atomic on a
// standalone server, behind Sentinel, on a Ring and on a Cluster alike. Redis 5 or newer.
//
// Time is the server's: the clocks of the application's hosts don't matter. Every key has a TTL: the
// time until its buckets are full, and a second.
//
// It starts no lasting goroutine and needs no closing; the client stays the caller's. At most four
// calls of a store are under way at once, so it needs few connections; to a server that is far, one for each
// 2 ms of the round trip, up to 32, or three quarters of the client's pool. With the client's
// ContextTimeoutEnabled a call that is stuck gives its connection back after twice the store's timeout,
// without it when the client's ReadTimeout ends.
type RedisStore struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
	clock   func() time.Time // nil: the server's
	trip    int
	pause   time.Duration
	errs    []error
	named   named

	breaker   *breaker
	denials   denyCache
	leases    leases
	traffic   traffic
	logger    *slog.Logger // nil: slog.Default
	batcher   batcher
	scattered atomic.Bool // keys may be on different servers: a script call can't take several
	punctual  bool        // the client minds the deadlines of contexts
	eviction  evictionWatch
}

// RedisOption is an option of [NewRedisStore].
type RedisOption interface{ redis(*RedisStore) }

type redisOption func(*RedisStore)

func (o redisOption) redis(s *RedisStore) { o(s) }

// WithPrefix sets what every key begins with: by default "ratelimit:". It may be anything, "" too; two stores
// with one prefix on one server share buckets. A prefix with a hash tag, such as "{limits}:", puts all keys of
// the store into one Cluster slot.
func WithPrefix(prefix string) RedisOption {
	return redisOption(func(s *RedisStore) { s.prefix = prefix })
}

// WithTimeout bounds how long a decision may take: by default 100 ms. Then the policy's OnFailure
// decides. It should be above two round trips to the server: a decision may have to wait for a call that is
// under way. Setting up a connection takes more, and is not part of it: a connection has a second, or ten
// times the timeout if that is longer. The timeout is the store's own; the client's, and an earlier deadline of
// the caller's context, hold as well.
func WithTimeout(d time.Duration) RedisOption {
	return redisOption(func(s *RedisStore) {
		if d <= 0 {
			s.errs = append(s.errs, &ConfigError{"WithTimeout", d, "must be above 0"})
			return
		}
		s.timeout = d
	})
}

func (o ClockOption) redis(s *RedisStore) {
	if o.now == nil {
		s.errs = append(s.errs, &ConfigError{"WithClock", nil, "must be a function"})
		return
	}
	s.clock = o.now
}

// NewRedisStore returns a store on a client of any topology. It does not connect: a server that
// can't be reached is met by the policy's OnFailure. Mistakes in its options are reported by
// [NewLimiter], or by every decision where another Store wraps this one.
func NewRedisStore(client redis.UniversalClient, options ...RedisOption) *RedisStore {
	s := &RedisStore{client: client, prefix: defaultPrefix, timeout: defaultTimeout, trip: defaultTrip, pause: defaultPause}
	s.denials.horizon, s.denials.seed = defaultHorizon, maphash.MakeSeed()
	s.leases.seed, s.leases.idle = s.denials.seed, leaseIdle
	for _, o := range options {
		if o != nil {
			o.redis(s)
		}
	}
	s.breaker = newBreaker(s.trip, s.pause, s.log)
	if isNil(client) {
		s.errs = append(s.errs, &ConfigError{"NewRedisStore client", nil, "must be a go-redis client"})
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
	s.batcher.room, s.batcher.limit = flightRoom(client), s.timeout
	s.batcher.expire, s.batcher.spare = s.expire, s.spare
	if s.clock != nil {
		s.batcher.room = 1 // one after another, so that an injected clock's instants arrive in order
	}
	return s
}

func (s *RedisStore) mistakes() []error { return s.errs }
func (s *RedisStore) policies() *named  { return &s.named }

// Do has r decided, in one round trip that it may share with other decisions, or none when it is known
// to be denied or tokens are leased for it.
func (s *RedisStore) Do(ctx context.Context, r Request) (a Answer, err error) {
	err = s.answer(ctx, &r, &a)
	return a, err
}

// answer is Do, into a.
func (s *RedisStore) answer(ctx context.Context, r *Request, a *Answer) (err error) {
	if len(s.errs) > 0 { // NewLimiter does not see them where another store wraps this one
		return errors.Join(s.errs...)
	}
	now := s.now()
	if s.spend(r, a, now) {
		return nil
	}
	if !s.denials.applies(r) {
		*a, err = s.decideOrLease(ctx, *r)
		return err
	}
	known, version := s.denials.repeat(r, a, now)
	if known {
		return nil
	}
	*a, err = s.decideOrLease(ctx, *r)
	if err == nil && !a.Allowed {
		s.denials.keep(r, *a, version, now, s.now())
	}
	return err
}

// ask has r decided by Redis.
func (s *RedisStore) ask(ctx context.Context, r Request) (Answer, error) {
	answer, err := s.decide(ctx, r)
	if err != nil {
		return Answer{}, fmt.Errorf("policy %q: %w", r.policy, err)
	}
	s.eviction.look(s)
	return answer, nil
}

// log is where the store's warnings go.
func (s *RedisStore) log() *slog.Logger {
	if s.logger != nil {
		return s.logger
	}
	return slog.Default()
}

// now is the instant on which denials are timed.
func (s *RedisStore) now() time.Time {
	if s.clock != nil {
		return s.clock()
	}
	return start.Add(time.Since(start)) // time.Now, without a look at the wall's clock
}

// Reset deletes the key of a policy's bucket, whatever it holds.
func (s *RedisStore) Reset(ctx context.Context, policy, key string) error {
	if len(s.errs) > 0 {
		return errors.Join(s.errs...)
	}
	report, err := s.breaker.enter()
	if err == nil {
		p, unused := s.forget(policy, key)
		err = s.del(ctx, policy, key)
		report(err)
		if err != nil && p != nil {
			go s.giveBack(entryKey{policy, key}.clone(), p, 0, unused)
		}
		s.forget(policy, key) // a lease that came before the server reset the key
	}
	if err != nil {
		return fmt.Errorf("reset in policy %q: %w", policy, err)
	}
	return nil
}

// del deletes a bucket's key, in a goroutine that runs on when nobody waits for it any more: go-redis does
// not stop reading when a context ends. A hook of the client that panics is a failure like others.
func (s *RedisStore) del(ctx context.Context, policy, key string) error {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	done := make(chan error, 1)
	s.denials.giving(policy, key)
	go func() {
		defer cancel()
		err := func() (err error) {
			defer recovered(&err)
			return s.client.Del(own, redisKey(s.prefix, policy, key)).Err()
		}()
		s.denials.given(policy, key, err)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return gone{ctx.Err()}
	case <-time.After(s.timeout):
		return timeoutError(s.timeout)
	}
}
