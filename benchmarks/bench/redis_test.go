package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	ginratelimit "github.com/JGLTechnologies/gin-rate-limit"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	"github.com/stretchr/testify/require"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// A redisPeer is a limiter whose buckets are in Redis.
type redisPeer struct {
	name string
	keys int // Redis keys that it uses for one key
	new  buildRedis
}

// buildRedis builds a limiter on a client, which is a *redis.Client unless
// commands are piped.
type buildRedis func(b *testing.B, c redis.UniversalClient, l limit) decide

// redisPeers lacks sethvargo/go-limiter, whose Redis store is another module.
var redisPeers = []redisPeer{
	{ours, 1, library()},
	{"redis_rate", 1, newRedisRate},
	{"redis_rate+AutoPipeline", 1, piped(newRedisRate)},
	{"rueidislimiter", 2, newRueidis},
	{"ulule", 1, newUlule},
	{"ulule+AutoPipeline", 1, piped(newUlule)},
	{"throttled", 1, newThrottled},
	{"httprate-redis", 1, newHTTPRate},
	{"gin-rate-limit", 2, newGinRateLimit},
}

// scripted returns the peers that decide in one script, with a client of their
// own kind.
func scripted() []redisPeer {
	return slices.DeleteFunc(slices.Clone(redisPeers), func(p redisPeer) bool {
		return !slices.Contains([]string{ours, "redis_rate", "rueidislimiter", "ulule"}, p.name)
	})
}

func library(options ...redisstore.Option) buildRedis {
	return func(b *testing.B, c redis.UniversalClient, l limit) decide {
		return l.library(b, redisstore.New(c, append(options, patient)...))
	}
}

// patient waits out a stall of the machine as long as the peers do.
var patient = redisstore.WithTimeout(3 * time.Second)

// piped makes the concurrent commands of a peer share round trips.
func piped(build buildRedis) buildRedis {
	return func(b *testing.B, c redis.UniversalClient, l limit) decide {
		p, err := c.(*redis.Client).AutoPipeline()
		require.NoError(b, err)
		b.Cleanup(func() { _ = p.Close() })
		return build(b, p, l)
	}
}

func newRedisRate(_ *testing.B, c redis.UniversalClient, l limit) decide {
	limiter, rate := redis_rate.NewLimiter(c), redis_rate.Limit{Rate: 1, Burst: l.burst, Period: l.interval}
	return func(ctx context.Context, key string) (bool, error) {
		res, err := limiter.Allow(ctx, key, rate)
		return err == nil && res.Allowed > 0, err
	}
}

// newRueidis connects with a client of its own kind, which sends the commands
// of all goroutines down a few connections.
func newRueidis(b *testing.B, c redis.UniversalClient, l limit) decide {
	to := c.(*redis.Client).Options()
	limiter, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{to.Addr}, SelectDB: to.DB},
		ClientBuilder: func(o rueidis.ClientOption) (rueidis.Client, error) {
			c, err := rueidis.NewClient(o)
			require.NoError(b, err)
			b.Cleanup(c.Close)
			return c, nil
		},
		Limit: l.burst, Window: window,
	})
	require.NoError(b, err)
	return func(ctx context.Context, key string) (bool, error) {
		res, err := limiter.Allow(ctx, key)
		return res.Allowed, err
	}
}

func newUlule(b *testing.B, c redis.UniversalClient, l limit) decide {
	store, err := ululeredis.NewStore(c)
	require.NoError(b, err)
	return ululeDecide(store, l)
}

func ululeDecide(store limiter.Store, l limit) decide {
	u := limiter.New(store, limiter.Rate{Period: window, Limit: int64(l.burst)})
	return func(ctx context.Context, key string) (bool, error) {
		state, err := u.Get(ctx, key)
		return !state.Reached, err
	}
}

// newThrottled reads, decides here, and writes if nothing has changed
// meanwhile.
func newThrottled(b *testing.B, c redis.UniversalClient, l limit) decide {
	store, err := goredisstore.NewCtx(c, "throttled:")
	require.NoError(b, err)
	return throttledDecide(b, store, l)
}

func throttledDecide(b *testing.B, store throttled.GCRAStoreCtx, l limit) decide {
	b.Helper()
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(1, l.interval), MaxBurst: l.burst - 1}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, quota)
	require.NoError(b, err)
	limiter.SetMaxCASAttemptsLimit(1_000_000)
	return func(ctx context.Context, key string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}
}

// newHTTPRate calls what the middleware calls: without HTTP, httprate has no
// limiter.
func newHTTPRate(b *testing.B, c redis.UniversalClient, l limit) decide {
	limiter := httprate.NewRateLimiter(l.burst, window, httprate.WithLimitCounter(httpRateCounter(c)),
		httprate.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, err error) { w.(*response).err = err }))
	request, err := http.NewRequest(http.MethodGet, "/", nil)
	require.NoError(b, err)
	return func(_ context.Context, key string) (bool, error) {
		w := &response{header: make(http.Header)}
		denied := limiter.OnLimit(w, request, key)
		return !denied, w.err
	}
}

func httpRateCounter(c redis.UniversalClient) httprate.LimitCounter {
	return httprateredis.NewCounter(&httprateredis.Config{Client: c, FallbackDisabled: true})
}

// newGinRateLimit panics if Redis fails.
func newGinRateLimit(_ *testing.B, c redis.UniversalClient, l limit) decide {
	store := ginRateLimitStore(c, l)
	return func(ctx context.Context, key string) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil) // the store uses its context
		if err != nil {
			return false, err
		}
		return !store.Limit(key, &gin.Context{Request: request}).RateLimited, nil
	}
}

func ginRateLimitStore(c redis.UniversalClient, l limit) ginratelimit.Store {
	return ginratelimit.RedisStore(&ginratelimit.RedisOptions{
		RedisClient: c.(*redis.Client), Rate: window, Limit: uint(l.burst), PanicOnErr: true,
	})
}

// A contender is a peer on a database of its own.
type contender struct {
	redisPeer
	decide

	client *redis.Client
}

// compete builds peers on a new server.
func compete(b *testing.B, l limit, peers ...redisPeer) (contenders []contender) {
	b.Helper()
	server := redistest.Start(b)
	for i, p := range peers {
		c := redis.NewClient(&redis.Options{Addr: server.Addr, DB: i + 1, ContextTimeoutEnabled: true})
		b.Cleanup(func() { _ = c.Close() })
		contenders = append(contenders, contender{p, p.new(b, c, l), c})
	}
	return contenders
}

// hasKeys fails unless as many Redis keys exist as n keys need.
func (c contender) hasKeys(b *testing.B, n int) {
	b.Helper()
	found, err := c.client.DBSize(context.Background()).Result()
	require.NoError(b, err)
	require.GreaterOrEqual(b, found, int64(n*c.keys), "keys of %s", c.name)
}

// bytesPerKey returns what one key takes in Redis, names included: the mean of
// some.
func (c contender) bytesPerKey(b *testing.B) float64 {
	b.Helper()
	found, _, err := c.client.Scan(context.Background(), 0, "", 100).Result()
	require.NoError(b, err)
	sum := int64(0)
	for _, key := range found {
		sum += c.client.MemoryUsage(context.Background(), key).Val()
	}
	return float64(sum) * float64(c.keys) / float64(len(found))
}

// measure has so many goroutines decide on keys, each time with the result
// want, and reports the server's CPU time.
func (c contender) measure(b *testing.B, goroutines int, keys []string, want bool) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background()) // a client can hang up, as in servers
	defer cancel()
	before := c.serverTime(b)
	spread(b, goroutines, func(i int) error { return c.expect(ctx, keys[i%len(keys)], want) })
	b.ReportMetric((c.serverTime(b)-before)/float64(b.N), "server-ns/op")
}

var cpuTime = regexp.MustCompile(`(?m)^used_cpu_(?:sys|user):([\d.]+)`)

// serverTime returns the CPU time that the server has used, in nanoseconds.
func (c contender) serverTime(b *testing.B) (sum float64) {
	b.Helper()
	info, err := c.client.Info(context.Background(), "cpu").Result()
	require.NoError(b, err)
	for _, found := range cpuTime.FindAllStringSubmatch(info, -1) {
		seconds, err := strconv.ParseFloat(found[1], 64)
		require.NoError(b, err)
		sum += seconds * 1e9
	}
	return sum
}

// BenchmarkRedis decides on 10,000 keys. All requests are allowed.
func BenchmarkRedis(b *testing.B) {
	keys := names(10_000)
	contenders := compete(b, roomy, redisPeers...)
	bytes := map[string]float64{}
	for _, c := range contenders {
		fill := func(i int) error { return c.expect(context.Background(), keys[i], true) }
		require.NoError(b, atOnce(16, len(keys), fill), c.name)
		c.hasKeys(b, len(keys))
		bytes[c.name] = c.bytesPerKey(b)
	}
	for _, goroutines := range []int{1, 4, 64, 512} {
		for _, c := range contenders {
			b.Run(fmt.Sprintf("goroutines=%d/peer=%s", goroutines, c.name), func(b *testing.B) {
				c.measure(b, goroutines, keys, true)
				b.ReportMetric(bytes[c.name], "redis-B/key")
			})
		}
	}
	for _, c := range contenders {
		c.hasKeys(b, len(keys)) // none has ended
	}
}

// BenchmarkOneKey decides on one key that all goroutines share. All requests
// are allowed. With leases, this library takes up to 1,000 tokens ahead.
func BenchmarkOneKey(b *testing.B) {
	leases := redisPeer{ours + "+leases", 1, library(redisstore.WithLease(1000))}
	contenders := compete(b, vast, slices.Insert(scripted(), 1, leases)...)
	for _, goroutines := range []int{64, 512} {
		for _, c := range contenders {
			b.Run(fmt.Sprintf("goroutines=%d/peer=%s", goroutines, c.name), func(b *testing.B) {
				c.measure(b, goroutines, []string{"everyone"}, true)
				c.hasKeys(b, 1)
			})
		}
	}
}

// BenchmarkDenied decides on a key that has no tokens left for an hour.
func BenchmarkDenied(b *testing.B) {
	for _, c := range compete(b, single, scripted()...) {
		require.NoError(b, c.expect(context.Background(), "everyone", true), c.name)
		b.Run("peer="+c.name, func(b *testing.B) { c.measure(b, 1, []string{"everyone"}, false) })
	}
}
