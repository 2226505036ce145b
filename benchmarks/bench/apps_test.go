package bench_test

import (
	"net/http"

	ginratelimit "github.com/JGLTechnologies/gin-rate-limit"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/httprate"
	"github.com/gofiber/fiber/v3"
	fiberlimiter "github.com/gofiber/fiber/v3/middleware/limiter"
	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/ulule/limiter/v3"
	ululegin "github.com/ulule/limiter/v3/drivers/middleware/gin"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
	echolimit "github.com/tokenbucket-go/ratelimit/echolimit/v5"
	fiberlimit "github.com/tokenbucket-go/ratelimit/fiberlimit/v3"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

const (
	// keyField names the client of a request. All apps limit by it.
	keyField = "X-Api-Key"
	// limitField is among the header fields of most limiters.
	limitField = "X-Ratelimit-Limit"

	path = "/items/42"
)

// An app is a web framework with one route, and a limiter that lets all
// requests pass.
type app struct {
	name  string // framework/limiter
	sends string // a header field that proves the limiter's work; "" if there is none
	keys  int    // Redis keys of one client; 0 if it is not measured on Redis
	// new returns an http.Handler or, of fiber, a fasthttp.RequestHandler.
	new func(buckets) any
}

// buckets are the stores of limiters. Those of echo's and fiber's own are in
// memory, as is httprate's if it is nil.
type buckets struct {
	library  core.Store
	ulule    limiter.Store
	gin      ginratelimit.Store
	httprate httprate.LimitCounter
}

func (s buckets) limiter() *core.Limiter {
	return core.Must(core.NewLimiter(s.library, roomy.policy()))
}

var apps = []app{
	{"gin/none", "", 1, func(buckets) any { return ginApp() }},
	{"gin/" + ours, limitField, 1, func(s buckets) any {
		return ginApp(ginlimit.New(s.limiter(), ginlimit.ByHeader(keyField)))
	}},
	{"gin/ulule", limitField, 1, func(s buckets) any {
		l := limiter.New(s.ulule, limiter.Rate{Period: window, Limit: int64(roomy.burst)})
		return ginApp(ululegin.NewMiddleware(l, ululegin.WithKeyGetter(ginKey)))
	}},
	{"gin/gin-rate-limit", "X-Rate-Limit-Limit", 2, func(s buckets) any {
		return ginApp(ginratelimit.RateLimiter(s.gin, &ginratelimit.Options{KeyFunc: ginKey}))
	}},
	{"chi/" + ours, limitField, 1, func(s buckets) any {
		return chiApp(chilimit.New(s.limiter(), chilimit.ByHeader(keyField)))
	}},
	{"chi/httprate", limitField, 1, func(s buckets) any {
		key := httprate.WithKeyFuncs(func(r *http.Request) (string, error) { return r.Header.Get(keyField), nil })
		return chiApp(httprate.NewRateLimiter(roomy.burst, window, key, httprate.WithLimitCounter(s.httprate)).Handler)
	}},
	{"echo/" + ours, limitField, 0, func(s buckets) any {
		return echoApp(echolimit.New(s.limiter(), echolimit.ByHeader(keyField)))
	}},
	{"echo/own", limitField, 0, func(buckets) any {
		return echoApp(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
			Store: middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
				Rate: 1 / roomy.interval.Seconds(), Burst: roomy.burst, ExpiresIn: window,
			}),
			IdentifierExtractor: func(c *echo.Context) (string, error) { return c.Request().Header.Get(keyField), nil },
		}))
	}},
	{"fiber/" + ours, limitField, 0, func(s buckets) any {
		return fiberApp(fiberlimit.New(s.limiter(), fiberlimit.ByHeader(keyField)))
	}},
	{"fiber/own", limitField, 0, func(buckets) any {
		return fiberApp(fiberlimiter.New(fiberlimiter.Config{
			Max: roomy.burst, Expiration: window, KeyGenerator: func(c fiber.Ctx) string { return c.Get(keyField) },
		}))
	}},
}

func ginKey(c *gin.Context) string { return c.GetHeader(keyField) }

func ginApp(use ...gin.HandlerFunc) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(use...)
	r.GET("/items/:id", func(c *gin.Context) { c.String(http.StatusOK, "ok") })
	return r
}

func chiApp(use ...func(http.Handler) http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Use(use...)
	r.Get("/items/{id}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	return r
}

func echoApp(use ...echo.MiddlewareFunc) http.Handler {
	e := echo.New()
	e.Use(use...)
	e.GET("/items/:id", func(c *echo.Context) error { return c.String(http.StatusOK, "ok") })
	return e
}

func fiberApp(use ...any) any {
	a := fiber.New()
	a.Use(use...)
	a.Get("/items/:id", func(c fiber.Ctx) error { return c.SendString("ok") })
	return a.Handler()
}
