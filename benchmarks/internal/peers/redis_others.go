package peers

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	ginratelimit "github.com/JGLTechnologies/gin-rate-limit"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

func newUlule(to Connection, l Limit) (*Redis, error) {
	c, closeClient := client(to)
	limiter, err := ululeLimiter(c, l)
	return &Redis{
		Name: Ulule, KeysPerKey: 1, Scripted: true, close: closeClient,
		Decide: ululeDecide(limiter),
	}, err
}

func newPipedUlule(to Connection, l Limit) (*Redis, error) {
	p, closeClient, err := piped(to)
	if err != nil {
		return nil, err
	}
	limiter, err := ululeLimiter(p, l)
	return &Redis{
		Name: Ulule + Piped, KeysPerKey: 1, Scripted: true, close: closeClient,
		Decide: ululeDecide(limiter),
	}, err
}

// UluleOnRedis is ulule/limiter for a middleware.
func UluleOnRedis(to Connection, l Limit) (*limiter.Limiter, error) {
	c, _ := client(to)
	return ululeLimiter(c, l)
}

func ululeLimiter(c redis.UniversalClient, l Limit) (*limiter.Limiter, error) {
	store, err := ululeredis.NewStore(c)
	return limiter.New(store, limiter.Rate{Period: window, Limit: int64(l.Burst)}), err
}

func ululeDecide(l *limiter.Limiter) Decide {
	return func(ctx context.Context, key string) (bool, error) {
		state, err := l.Get(ctx, key)
		return !state.Reached, err
	}
}

// Throttled is the name of throttled among the contenders.
const Throttled = "throttled"

// newThrottled reads, decides here and writes if nothing changed meanwhile, so a hot key takes many
// attempts; by default it gives up after ten.
func newThrottled(to Connection, l Limit) (*Redis, error) {
	c, closeClient := client(to)
	store, err := goredisstore.NewCtx(c, "throttled:")
	if err != nil {
		return nil, err
	}
	decide, err := throttledDecide(store, l)
	return &Redis{Name: Throttled, KeysPerKey: 1, close: closeClient, Decide: decide}, err
}

func throttledDecide(store throttled.GCRAStoreCtx, l Limit) (Decide, error) {
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(1, l.perToken()), MaxBurst: l.Burst - 1}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, err
	}
	limiter.SetMaxCASAttemptsLimit(1_000_000)
	return func(ctx context.Context, key string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}, nil
}

// newHTTPRate is asked below its middleware, for its limiter knows only HTTP.
func newHTTPRate(to Connection, l Limit) (*Redis, error) {
	c, closeClient := client(to)
	limiter := httpRateLimiter(c, l,
		httprate.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, err error) { w.(*answer).err = err }))
	request, err := http.NewRequest(http.MethodGet, "/", nil)
	return &Redis{
		Name: HTTPRateRedis, KeysPerKey: 1, close: closeClient,
		Decide: func(_ context.Context, key string) (bool, error) {
			w := &answer{header: make(http.Header)}
			denied := limiter.OnLimit(w, request, key)
			return !denied, w.err
		},
	}, err
}

// HTTPRateRedis is the name of httprate with httprate-redis among the contenders.
const HTTPRateRedis = "httprate-redis"

// HTTPRateOnRedis is httprate for a middleware.
func HTTPRateOnRedis(to Connection, l Limit, options ...httprate.Option) *httprate.RateLimiter {
	c, _ := client(to)
	return httpRateLimiter(c, l, options...)
}

func httpRateLimiter(c redis.UniversalClient, l Limit, options ...httprate.Option) *httprate.RateLimiter {
	counter := httprateredis.NewCounter(&httprateredis.Config{Client: c, FallbackDisabled: true})
	return httprate.NewRateLimiter(l.Burst, window, append(options, httprate.WithLimitCounter(counter))...)
}

// answer is the response that httprate writes its header fields to.
type answer struct {
	http.ResponseWriter

	header http.Header
	err    error
}

func (a *answer) Header() http.Header { return a.header }

func newGinRateLimit(to Connection, l Limit) (*Redis, error) {
	c, closeClient := client(to)
	store := ginRateLimitStore(c, l)
	return &Redis{
		Name: GinRateLimit, KeysPerKey: 2, Scripted: true, close: closeClient,
		Decide: func(ctx context.Context, key string) (allowed bool, err error) {
			defer func() {
				if p := recover(); p != nil {
					err = errors.New(fmt.Sprint(p))
				}
			}()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil) // its store reads the context of the request
			if err != nil {
				return false, err
			}
			return !store.Limit(key, &gin.Context{Request: request}).RateLimited, nil
		},
	}, nil
}

// GinRateLimit is the name of gin-rate-limit among the contenders.
const GinRateLimit = "gin-rate-limit"

// GinRateLimitOnRedis is the store of gin-rate-limit for a middleware.
func GinRateLimitOnRedis(to Connection, l Limit) ginratelimit.Store {
	c, _ := client(to)
	return ginRateLimitStore(c, l)
}

// ginRateLimitStore decides in a script, since v1.5.8.
func ginRateLimitStore(c *redis.Client, l Limit) ginratelimit.Store {
	return ginratelimit.RedisStore(&ginratelimit.RedisOptions{
		RedisClient: c, Rate: window, Limit: uint(l.Burst), PanicOnErr: true,
	})
}
