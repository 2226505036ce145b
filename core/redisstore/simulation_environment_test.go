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

// simulatedClock is a simulation's clock.
type simulatedClock struct{ wall atomic.Int64 }

func (c *simulatedClock) Now() time.Time { return time.UnixMicro(c.wall.Load()) }

// environment is the set of stores on which simulations are run, one after another.
type environment interface {
	begin(*simulatedClock)
	store(proc) core.Store  // of a new process
	settle(core.Store)      // makes a process give its leases back, as if they were idle
	stepBack(time.Duration) // is called before the clock steps back; the processes' own clocks do not
	flush()                 // loses all keys
	spoil() error           // makes the key of the policy "bad" unusable
	end()
	leases() bool
}

// memoryEnvironment has one MemoryStore that all processes share.
type memoryEnvironment struct{ shared *core.MemoryStore }

func (w *memoryEnvironment) begin(c *simulatedClock) {
	w.shared = core.NewMemoryStore(core.WithClock(c.Now), core.WithMaxKeys(1000))
}
func (w *memoryEnvironment) store(proc) core.Store  { return w.shared }
func (w *memoryEnvironment) settle(core.Store)      {}
func (w *memoryEnvironment) stepBack(time.Duration) {}
func (w *memoryEnvironment) flush() {
	_ = w.shared.Reset(context.Background(), simulatedPolicy, simulatedKey)
}
func (w *memoryEnvironment) end() {}

// spoil uses the key under too many limits.
func (w *memoryEnvironment) spoil() error {
	l, err := core.NewLimiter(w.shared, core.Policy{Name: "bad", Limits: []core.Limit{core.PerSecond(1)}, OnFailure: core.FailOpen})
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

func (w *memoryEnvironment) leases() bool { return false }

// redisEnvironment has a Redis, with a prefix for each simulation. Keys expire by the simulation's clock.
type redisEnvironment struct {
	client *redis.Client
	shelf  *shelf
	prefix string
	stores []*redisstore.Store
}

func newRedisEnvironment(t testing.TB) *redisEnvironment {
	w := &redisEnvironment{client: redistest.Client(t), shelf: &shelf{}}
	w.client.AddHook(w.shelf)
	return w
}

func (w *redisEnvironment) begin(c *simulatedClock) {
	w.shelf.begin(c)
	w.prefix, w.stores = redistest.Prefix(), nil
}

func (w *redisEnvironment) store(p proc) core.Store {
	options := []redisstore.Option{redisstore.WithPrefix(w.prefix), core.WithClock(w.shelf.clock.Now), redisstore.WithTimeout(time.Minute)}
	if !p.deny {
		options = append(options, redisstore.WithDenyCache(0))
	}
	if p.lease > 0 {
		options = append(options, redisstore.WithLease(p.lease))
	}
	s := redisstore.New(w.client, options...)
	s.KeepLeases()
	w.stores = append(w.stores, s)
	return s
}

func (w *redisEnvironment) settle(s core.Store) { s.(*redisstore.Store).GiveBack() }
func (w *redisEnvironment) leases() bool        { return true }

func (w *redisEnvironment) stepBack(by time.Duration) {
	for _, s := range w.stores {
		s.StepBack(by)
	}
}

func (w *redisEnvironment) flush() {
	if keys := w.shelf.keys(); len(keys) > 0 {
		w.client.Del(context.Background(), keys...)
	}
}

func (w *redisEnvironment) spoil() error {
	return w.client.Set(context.Background(), redisstore.RedisKey(w.prefix, "bad", simulatedKey), "text", 0).Err()
}

// end removes leases, whose timers would run on, and keys.
func (w *redisEnvironment) end() {
	for _, s := range w.stores {
		s.GiveBack()
	}
	w.flush()
	w.client.Del(context.Background(), redisstore.RedisKey(w.prefix, "bad", simulatedKey))
}

// shelf is a hook that expires keys by an injected clock, as a server does by its own. It loses a key whose TTL is too
// short. It keeps other keys however slow the machine is, give or take the second that a simulation may take.
type shelf struct {
	redistest.Hook

	clock   *simulatedClock
	mu      sync.Mutex
	expires map[string]int64 // by that clock, µs since 1970
}

func (s *shelf) begin(c *simulatedClock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock, s.expires = c, make(map[string]int64)
}

func (s *shelf) keys() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.expires {
		keys = append(keys, key)
	}
	return keys
}

// ProcessHook sets the TTLs of a script's keys before it runs, and reads them after.
func (s *shelf) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
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
func (s *shelf) before(ctx context.Context, next redis.ProcessHook, key string) (left int64) {
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

// after notes what TTL the script gave to key. It leaves alone what the script left alone: left is what before gave, and
// real time has passed since began.
func (s *shelf) after(ctx context.Context, next redis.ProcessHook, key string, left int64, began time.Time) {
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
