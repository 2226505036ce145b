package core

import (
	"context"
	"fmt"
	"strconv"
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
// It starts no lasting goroutine and needs no closing; the client stays the caller's. On a
// *redis.Client its commands run with the store's timeout; other clients should have a ReadTimeout of
// about that, or ContextTimeoutEnabled, so that a stuck call gives its connection back soon.
type RedisStore struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
	clock   func() time.Time // nil: the server's
	trip    int
	pause   time.Duration
	errs    []error

	breaker  *breaker
	eviction evictionWatch
}

// RedisOption is an option of [NewRedisStore].
type RedisOption interface{ redis(*RedisStore) }

type redisOption func(*RedisStore)

func (o redisOption) redis(s *RedisStore) { o(s) }

// WithPrefix sets what every key begins with: by default "ratelimit:". A prefix with a hash tag, such
// as "{limits}:", puts all keys of the store into one Cluster slot.
func WithPrefix(prefix string) RedisOption {
	return redisOption(func(s *RedisStore) { s.prefix = prefix })
}

// WithTimeout bounds how long a decision may take: by default 100 ms. Then the policy's OnFailure
// decides. The timeout is the store's own; the client's, and an earlier deadline of the caller's
// context, hold as well.
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
// [NewLimiter].
func NewRedisStore(client redis.UniversalClient, options ...RedisOption) *RedisStore {
	s := &RedisStore{client: client, prefix: defaultPrefix, timeout: defaultTimeout, trip: defaultTrip, pause: defaultPause}
	for _, o := range options {
		o.redis(s)
	}
	s.breaker = newBreaker(s.trip, s.pause)
	if isNil(client) {
		s.errs = append(s.errs, &ConfigError{"NewRedisStore client", nil, "must be a go-redis client"})
		return s
	}
	if c, ok := client.(*redis.Client); ok {
		c.AddHook(ownTimeout{s, c.WithTimeout(s.timeout)})
	}
	return s
}

func (s *RedisStore) mistakes() []error { return s.errs }

// Do runs the script for r.
func (s *RedisStore) Do(ctx context.Context, r Request) (Answer, error) {
	now := ""
	if s.clock != nil {
		at := s.clock()
		if micros := at.UnixMicro(); micros < 0 || micros > latest {
			return Answer{}, fmt.Errorf("%w: %v is not between 1970 and 2112", ErrClock, at)
		}
		now = strconv.FormatInt(at.UnixMicro(), 10)
	}
	key := redisKey(s.prefix, r.policy, r.key)
	reply, err := s.within(ctx, func(ctx context.Context) (any, error) {
		return s.eval(ctx, key, now, r.plan.packed, r.packed())
	})
	if err != nil {
		return Answer{}, fmt.Errorf("policy %q: %w", r.policy, err)
	}
	s.eviction.look(s)
	answer, err := r.readReply(reply)
	if err != nil {
		return Answer{}, fmt.Errorf("policy %q: %w", r.policy, err)
	}
	return answer, nil
}

// Reset deletes the key of a policy's bucket, whatever it holds.
func (s *RedisStore) Reset(ctx context.Context, policy, key string) error {
	_, err := s.within(ctx, func(ctx context.Context) (any, error) {
		return s.client.Del(ctx, redisKey(s.prefix, policy, key)).Result()
	})
	if err != nil {
		return fmt.Errorf("reset in policy %q: %w", policy, err)
	}
	return nil
}

// within runs call, unless the breaker is open, and waits for it no longer than the store's timeout
// and no longer than the caller does.
func (s *RedisStore) within(ctx context.Context, call func(context.Context) (any, error)) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.breaker.guard(ctx, func() (any, error) { return s.await(ctx, call) })
}

// await runs call in a goroutine, because go-redis itself does not stop reading when a context ends.
// A call that nobody waits for any more runs on until its connection's timeout.
func (s *RedisStore) await(ctx context.Context, call func(context.Context) (any, error)) (any, error) {
	type outcome struct {
		reply any
		err   error
	}
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	done := make(chan outcome, 1)
	go func() {
		reply, err := call(own)
		done <- outcome{reply, err}
		cancel()
	}()
	select {
	case o := <-done:
		return o.reply, o.err
	case <-ctx.Done():
		return nil, gone{ctx.Err()}
	case <-own.Done():
		select {
		case o := <-done: // the cancel after the answer is what ended it
			return o.reply, o.err
		default:
			return nil, errTimeout(s.timeout)
		}
	}
}
