package redisstore_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// The environment: the stores on which simulations are played, with a clock
// that the player moves. There are two, a MemoryStore and Redis. What differs
// between them is here: the player and the checker know only the interface.

// simulatedClock is a simulation's clock.
type simulatedClock struct{ wall atomic.Int64 }

func (c *simulatedClock) Now() time.Time { return time.UnixMicro(c.wall.Load()) }

// environment is the set of stores on which simulations are run, one after
// another.
type environment interface {
	begin(*simulatedClock)
	store(proc) core.Store                  // of a new process
	except(*process, core.Exceptions) error // sets the exceptions of a process
	settle(core.Store)                      // makes a process give its leases back, as if they were idle
	stepBack(time.Duration)                 // is called before the clock steps back, as a server's does: the processes' own clocks go on
	flush()                                 // loses all keys
	spoil() error                           // makes the key of the policy "bad" unusable
	end()                                   // the simulation is over
	leases() bool                           // whether stores can have leases
}

// memoryEnvironment has one MemoryStore that all processes share.
type memoryEnvironment struct{ shared *core.MemoryStore }

func (env *memoryEnvironment) begin(c *simulatedClock) {
	env.shared = core.NewMemoryStore(core.WithClock(c.Now), core.WithMaxKeys(1000))
}
func (env *memoryEnvironment) store(proc) core.Store  { return env.shared }
func (env *memoryEnvironment) settle(core.Store)      {}
func (env *memoryEnvironment) stepBack(time.Duration) {}
func (env *memoryEnvironment) flush() {
	_ = env.shared.Reset(context.Background(), simulatedPolicy, simulatedKey)
}
func (env *memoryEnvironment) end() {}
func (env *memoryEnvironment) except(p *process, e core.Exceptions) error {
	return p.base.SetExceptions(e)
}

// spoil uses the key under too many limits.
func (env *memoryEnvironment) spoil() error {
	l, err := core.NewLimiter(env.shared, core.Policy{Name: "bad", Limits: []core.Limit{core.PerSecond(1)}, OnFailure: core.FailOpen})
	if err != nil {
		return broken("an error", "NewLimiter: %v", err)
	}
	for n := range 6 {
		var limits []core.Limit
		for i := range 60 {
			limits = append(limits, core.Limit{Name: strconv.Itoa(60*n + i), Capacity: 1, RefillRate: 1, RefillInterval: 100 * 365 * 24 * time.Hour})
		}
		tier, err := l.WithLimits(limits...)
		if err != nil {
			return broken("an error", "WithLimits: %v", err)
		}
		if res, err := tier.Allow(context.Background(), simulatedKey); err != nil || res.Source == core.FromFailOpen {
			return err
		}
	}
	return broken("bad key", "a key can be used under 360 limits")
}

func (env *memoryEnvironment) leases() bool { return false }

// redisEnvironment has a Redis, with a prefix for each simulation. Keys expire
// by the simulation's clock.
type redisEnvironment struct {
	client *redis.Client
	expiry *keyExpiry
	prefix string
	stores []*redisstore.Store
}

func newRedisEnvironment(t testing.TB) *redisEnvironment {
	env := &redisEnvironment{client: redistest.Client(t), expiry: &keyExpiry{}}
	env.client.AddHook(env.expiry)
	return env
}

func (env *redisEnvironment) begin(c *simulatedClock) {
	env.expiry.begin(c)
	env.prefix, env.stores = redistest.Prefix(), nil
}

func (env *redisEnvironment) store(p proc) core.Store {
	options := []redisstore.Option{redisstore.WithPrefix(env.prefix), core.WithClock(env.expiry.clock.Now), redisstore.WithTimeout(time.Minute)}
	if !p.deny {
		options = append(options, redisstore.WithDenyCache(0))
	}
	if p.lease > 0 {
		options = append(options, redisstore.WithLease(p.lease))
	}
	s := redisstore.New(env.client, options...)
	s.KeepLeases()
	env.stores = append(env.stores, s)
	return s
}

func (env *redisEnvironment) settle(s core.Store) { s.(*redisstore.Store).GiveBack() }
func (env *redisEnvironment) leases() bool        { return true }

func (env *redisEnvironment) stepBack(by time.Duration) {
	for _, s := range env.stores {
		s.StepBack(by)
	}
}

// except writes exceptions into Redis, and reads them there.
func (env *redisEnvironment) except(p *process, e core.Exceptions) error {
	ctx, s := context.Background(), p.store.(*redisstore.Store)
	for _, end := range []func(context.Context, string, string) (bool, error){s.Unblock, s.EndOverride} {
		if _, err := end(ctx, simulatedPolicy, simulatedKey); err != nil {
			return err
		}
	}
	for key, limits := range e.Overrides {
		if err := s.SetException(ctx, simulatedPolicy, redisstore.Exception{Key: key, Limits: limits}); err != nil {
			return err
		}
	}
	for _, key := range e.Blocked {
		if err := s.SetException(ctx, simulatedPolicy, redisstore.Exception{Key: key}); err != nil {
			return err
		}
	}
	return s.ReadExceptions(ctx, p.base.Limiter)
}

func (env *redisEnvironment) flush() {
	if keys := env.expiry.keys(); len(keys) > 0 {
		env.client.Del(context.Background(), keys...)
	}
}

func (env *redisEnvironment) spoil() error {
	return env.client.Set(context.Background(), redisstore.RedisKey(env.prefix, "bad", simulatedKey), "text", 0).Err()
}

// end removes leases, whose timers would run on, and keys.
func (env *redisEnvironment) end() {
	for _, s := range env.stores {
		s.GiveBack()
	}
	env.flush()
	env.client.Del(context.Background(), redisstore.RedisKey(env.prefix, "bad", simulatedKey))
	if len(env.stores) > 0 {
		env.client.Del(context.Background(), redisstore.ExceptionsKey(env.stores[0], simulatedPolicy))
	}
}

// keyExpiry is a hook that expires keys by an injected clock, as a server does
// by its own. It loses a key whose TTL is too short. It keeps other keys
// however slow the machine is, give or take the second that a simulation may
// take.
type keyExpiry struct {
	redistest.Hook

	clock   *simulatedClock
	mu      sync.Mutex
	expires map[string]int64 // by that clock, µs since 1970
}

func (s *keyExpiry) begin(c *simulatedClock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock, s.expires = c, make(map[string]int64)
}

func (s *keyExpiry) keys() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.expires {
		keys = append(keys, key)
	}
	return keys
}

// ProcessHook sets the TTLs of a script's keys before it runs, and reads them
// after.
func (s *keyExpiry) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.HasPrefix(cmd.Name(), "eval") {
			return next(ctx, cmd)
		}
		own := context.WithoutCancel(ctx)
		args := cmd.Args()
		keys := args[3 : 3+args[2].(int)]
		began := time.Now()
		left := make([]int64, len(keys))
		for i, key := range keys {
			left[i] = s.before(own, next, key.(string))
		}
		err := next(ctx, cmd)
		for i, key := range keys {
			s.after(own, next, key.(string), left[i], began)
		}
		return err
	}
}

// before returns the TTL in ms that it gives to key, or 0.
func (s *keyExpiry) before(ctx context.Context, next redis.ProcessHook, key string) (left int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.wall.Load()
	expires, ok := s.expires[key]
	switch {
	case !ok:
	case expires <= now:
		_ = next(ctx, redis.NewIntCmd(ctx, "del", key))
	default:
		left = (expires - now + 999) / 1000
		_ = next(ctx, redis.NewBoolCmd(ctx, "pexpire", key, left))
	}
	return left
}

// after records the TTL that the script gave to key. A TTL that is left, which
// before gave, less the real time since began, is not the script's: then the
// key expires as before.
func (s *keyExpiry) after(ctx context.Context, next redis.ProcessHook, key string, left int64, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.wall.Load()
	ttl := redis.NewIntCmd(ctx, "pttl", key)
	_ = next(ctx, ttl)
	if ttl.Val() < 0 {
		delete(s.expires, key)
		return
	}
	if lost := left - ttl.Val(); lost < 0 || lost > time.Since(began).Milliseconds()+1 {
		s.expires[key] = now + ttl.Val()*1000
	}
}
