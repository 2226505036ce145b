package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// A Store takes any go-redis client. It connects with its first decision. Here
// miniredis stands for a Redis.
func ExampleStore() {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	defer rdb.Close()
	limiter := core.Must(core.NewLimiter(redisstore.New(rdb, redisstore.WithTimeout(time.Minute), core.WithLogger(slog.New(slog.DiscardHandler))), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerSecond(10).WithBurst(30)},
	}))
	key := core.JoinKey("user", "ada")
	res, err := limiter.Allow(context.Background(), key)
	if err != nil {
		return // the caller's context ended; an outage is decided by Policy.OnFailure
	}
	fmt.Println(res.Allowed, res.Source)

	// A Redis key that holds something else affects no other key. Reset makes
	// it usable again.
	_ = server.Set(server.Keys()[0], "of another program")
	res, err = limiter.Allow(context.Background(), key)
	if bad := (*store.StateError)(nil); err == nil && errors.As(res.Cause, &bad) {
		fmt.Println(res.Source, bad, limiter.Reset(context.Background(), key))
	}
	res, _ = limiter.Allow(context.Background(), key)
	fmt.Println(res.Allowed, res.Source)
	// Output:
	// true store
	// fallback stored state: the key holds no bucket (RL613) <nil>
	// true store
}

func ExampleOption() {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"n1:6379"}, ContextTimeoutEnabled: true})
	store := redisstore.New(rdb,
		redisstore.WithPrefix("shop:limits:"),
		redisstore.WithTimeout(50*time.Millisecond),
		redisstore.WithBreaker(10, time.Second),
		redisstore.WithDenyCache(500*time.Millisecond),
		redisstore.WithLease(1000),
	)
	_, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(1e5)}})
	fmt.Println(err)
	// Output: <nil>
}

// The server refuses connections, so the breaker opens after two failures and
// the store sends no more calls.
func ExampleStore_Stats() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer rdb.Close()
	store := redisstore.New(rdb, redisstore.WithBreaker(2, time.Hour), redisstore.WithTimeout(time.Minute), core.WithLogger(slog.New(slog.DiscardHandler)))
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

// Two services that share a Redis keep their buckets apart by a prefix.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	for _, service := range []string{"shop", "search"} {
		store := redisstore.New(rdb, redisstore.WithPrefix(service+":limits:"))
		_, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}})
		fmt.Println(service, err)
	}
	// Output:
	// shop <nil>
	// search <nil>
}

// Open makes the client too.
func ExampleOpen() {
	store, err := redisstore.Open("redis://localhost:6379/0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(10)}}))
	fmt.Println(limiter.Policy().Name)
	// Output: api
}

// Ping tells before the first request whether the store can decide. Nobody
// listens on port 1.
func ExampleStore_Ping() {
	store, err := redisstore.Open("redis://limiter:secret@127.0.0.1:1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	fmt.Println(store.Ping(ctx))
	// Output: ratelimit: store unavailable (RL603): redis://127.0.0.1:1: Redis does not answer: dial tcp 127.0.0.1:1: connect: connection refused
}

// A tool lists a policy's buckets, and looks at each.
func ExampleBucket() {
	store, end := onStandIn()
	defer end()
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1000)}, OnFailure: core.FailClosed}))
	ctx := context.Background()
	if _, err := limiter.AllowN(ctx, "ada", 10); err != nil {
		panic(err)
	}
	for bucket, err := range store.Buckets(ctx, limiter.Name(), 10_000) {
		if err != nil {
			panic(err)
		}
		res, err := limiter.Peek(ctx, bucket.Key)
		if err != nil {
			panic(err)
		}
		fmt.Println(bucket.Key, res.Remaining)
	}
	// Output: ada 990
}

// An operator blocks a key and raises the limit of another. Services that
// follow exceptions obey within two seconds.
func ExampleException() {
	store, end := onStandIn()
	defer end()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(100)}}))
	go store.FollowExceptions(ctx, limiter)

	raised := []core.Limit{core.PerHour(1000)}
	_ = store.SetException(ctx, "api", redisstore.Exception{Key: core.JoinKey("user", "ada"), Limits: raised, For: 2 * time.Hour})
	_ = store.SetException(ctx, "api", redisstore.Exception{Key: core.JoinKey("user", "eve")})
	list, err := store.Exceptions(ctx, "api")
	for _, e := range list {
		fmt.Println(e.Key, e.Limits, e.For > 0)
	}
	fmt.Println(err)
	// Output:
	// user:ada [1000/h] true
	// user:eve [] false
	// <nil>
}
