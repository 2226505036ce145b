package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
)

func ExampleMemoryStore() {
	store := core.NewMemoryStore()
	limiter := core.Must(core.NewLimiter(store, core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60)},
	}))
	for _, user := range []string{"ada", "grace", "ada"} {
		_, _ = limiter.Allow(context.Background(), user)
	}
	fmt.Println(store.Len(), "keys")
	// Output: 2 keys
}

func ExampleMemoryOption() {
	store := core.NewMemoryStore(core.WithMaxKeys(2))
	limiter := core.Must(core.NewLimiter(store, core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60)},
	}))
	for i := range 1000 {
		_, _ = limiter.Allow(context.Background(), fmt.Sprint("made up ", i))
	}
	fmt.Println(store.Len(), "keys")
	// Output: 2 keys
}

// An injected clock: what a test needs to see tokens come back without sleeping.
func ExampleClockOption() {
	ctx := context.Background()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	limiter := core.Must(core.NewLimiter(store, core.Policy{
		Name: "login", Limits: []core.Limit{core.PerMinute(1)},
	}))
	_, _ = limiter.Allow(ctx, "ada")
	res, _ := limiter.Allow(ctx, "ada")
	fmt.Println(res.Allowed)

	now = now.Add(res.RetryAfter)
	res, _ = limiter.Allow(ctx, "ada")
	fmt.Println(res.Allowed)
	// Output:
	// false
	// true
}

// A RedisStore takes any go-redis client and connects when it is first asked.
func ExampleRedisStore() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	limiter := core.Must(core.NewLimiter(core.NewRedisStore(rdb), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerSecond(10).WithBurst(30)},
	}))
	res, err := limiter.Allow(context.Background(), core.JoinKey("user", "ada"))
	if err != nil {
		return // the caller's context ended; an outage is decided by Policy.OnFailure
	}
	fmt.Println(res.Allowed, res.Source)
}

func ExampleRedisOption() {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"n1:6379"}, ContextTimeoutEnabled: true})
	store := core.NewRedisStore(rdb,
		core.WithPrefix("shop:limits:"),
		core.WithTimeout(50*time.Millisecond),
		core.WithBreaker(10, time.Second),
		core.WithDenyCache(500*time.Millisecond),
		core.WithLease(1000),
	)
	_, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(1e5)}})
	fmt.Println(err)
	// Output: <nil>
}

// Stats of a store whose server refuses connections: after two failures the breaker spares it the calls.
func ExampleRedisStats() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer rdb.Close()
	store := core.NewRedisStore(rdb, core.WithBreaker(2, time.Hour), core.WithTimeout(time.Minute), quiet())
	limiter := core.Must(core.NewLimiter(store, core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60)}, OnFailure: core.FailOpen,
	}))
	for range 5 {
		_, _ = limiter.Allow(context.Background(), "ada")
	}
	stats := store.Stats()
	fmt.Println("breaker", stats.Breaker, "opened", stats.Opened, "time")
	// Output: breaker open opened 1 time
}

func ExampleBreakerState() {
	fmt.Println(core.BreakerClosed, core.BreakerHalfOpen, core.BreakerOpen)
	// Output: closed half-open open
}

// A Redis key that holds something else harms nobody but itself; Reset makes it usable again.
func ExampleStateError() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	limiter := core.Must(core.NewLimiter(core.NewRedisStore(rdb), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60)}, OnFailure: core.FailOpen,
	}))
	res, err := limiter.Allow(ctx, "ada")
	if err != nil {
		return // the caller's context ended
	}
	var bad *core.StateError
	if errors.As(res.Cause, &bad) {
		_ = limiter.Reset(ctx, "ada")
	}
}

// mapStore is the least a store can be: it keeps every key for ever.
type mapStore struct {
	mu     sync.Mutex
	states map[string][]byte
}

// Do reads the clock and replaces the state in one step, under the lock.
func (s *mapStore) Do(_ context.Context, r core.Request) (core.Answer, error) {
	address := core.JoinKey(r.Policy(), r.Key())
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, next, _, err := r.Decide(s.states[address], time.Now())
	if next != nil {
		s.states[address] = next
	}
	return answer, err
}

func (s *mapStore) Reset(_ context.Context, policy, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.states, core.JoinKey(policy, key))
	return nil
}

// A store of your own keeps bytes; the arithmetic is Request.Decide's. Check it with package storetest.
func ExampleStore() {
	limiter := core.Must(core.NewLimiter(&mapStore{states: map[string][]byte{}}, core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60)},
	}))
	res, _ := limiter.Allow(context.Background(), "ada")
	fmt.Println(res.Allowed, res.Remaining)
	// Output: true 59
}

// tracing is a store that tells of every question before another store answers it.
type tracing struct{ core.Store }

func (s tracing) Do(ctx context.Context, r core.Request) (core.Answer, error) {
	answer, err := s.Store.Do(ctx, r)
	fmt.Println(r.Policy(), r.Key(), answer.Allowed)
	return answer, err
}

// A Request names its bucket: policy and key.
func ExampleRequest() {
	limiter := core.Must(core.NewLimiter(tracing{core.NewMemoryStore()}, core.Policy{
		Name: "api", Limits: []core.Limit{core.PerDay(1)},
	}))
	_, _ = limiter.Allow(context.Background(), "ada")
	_, _ = limiter.Allow(context.Background(), "ada")
	// Output:
	// api ada true
	// api ada false
}

// A store that wraps another passes its Answer on, and may read Allowed.
func ExampleAnswer() {
	limiter := core.Must(core.NewLimiter(tracing{core.NewMemoryStore()}, core.Policy{
		Name: "login", Limits: []core.Limit{core.PerHour(5)},
	}))
	_, _ = limiter.AllowN(context.Background(), "ada", 6)
	// Output: login ada false
}
