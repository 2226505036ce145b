package adapter_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	fiber2 "github.com/gofiber/fiber/v2"
	fiber3 "github.com/gofiber/fiber/v3"
	echo4 "github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
	echo4limit "github.com/tokenbucket-go/ratelimit/echolimit"
	echo5limit "github.com/tokenbucket-go/ratelimit/echolimit/v5"
	fiber2limit "github.com/tokenbucket-go/ratelimit/fiberlimit"
	fiber3limit "github.com/tokenbucket-go/ratelimit/fiberlimit/v3"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/fast/fasttest"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

type addedKey struct{}

// checkAdded checks what a limiter adds to a request, as limittest.CheckAdded
// does. serve serves a request through a middleware.
func checkAdded[M any](t *testing.T, name string, serve func(t *testing.T, middleware M) func(), nothing, keeps, limits M) {
	t.Run(name, func(t *testing.T) {
		limittest.CheckAdded(t, serve(t, nothing), serve(t, keeps), serve(t, limits))
	})
}

func TestMiddlewareAddsFewAllocations(t *testing.T) {
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerMinute(1_000_000))
	nothing := func(next http.Handler) http.Handler { return next }
	keeps := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), addedKey{}, t)))
		})
	}
	answer := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	checkAdded(t, "net/http", func(t *testing.T, middleware func(http.Handler) http.Handler) func() {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /", answer)
		return limittest.Request(t, middleware(mux))
	}, nothing, keeps, httplimit.New(limiter, httplimit.ByIP()))

	checkAdded(t, "chi", func(t *testing.T, middleware func(http.Handler) http.Handler) func() {
		r := chi.NewRouter()
		r.With(middleware).Get("/", answer)
		return limittest.Request(t, r)
	}, nothing, keeps, chilimit.New(limiter, chilimit.ByIP()))

	gin.SetMode(gin.ReleaseMode)
	checkAdded(t, "gin", func(t *testing.T, middleware gin.HandlerFunc) func() {
		r := gin.New()
		r.GET("/", middleware, func(c *gin.Context) { c.Status(http.StatusNoContent) })
		return limittest.Request(t, r)
	}, func(*gin.Context) {}, func(c *gin.Context) { c.Set("key", t) }, ginlimit.New(limiter, ginlimit.ByIP()))

	checkAdded(t, "echo v4", func(t *testing.T, middleware echo4.MiddlewareFunc) func() {
		e := echo4.New()
		e.GET("/", func(c echo4.Context) error { return c.NoContent(http.StatusNoContent) }, middleware)
		return limittest.Request(t, e)
	}, func(next echo4.HandlerFunc) echo4.HandlerFunc { return func(c echo4.Context) error { return next(c) } }, func(next echo4.HandlerFunc) echo4.HandlerFunc {
		return func(c echo4.Context) error { c.Set("key", t); return next(c) }
	}, echo4limit.New(limiter, echo4limit.ByIP()))

	checkAdded(t, "echo v5", func(t *testing.T, middleware echo5.MiddlewareFunc) func() {
		e := echo5.New()
		e.GET("/", func(c *echo5.Context) error { return c.NoContent(http.StatusNoContent) }, middleware)
		return limittest.Request(t, e)
	}, func(next echo5.HandlerFunc) echo5.HandlerFunc { return func(c *echo5.Context) error { return next(c) } }, func(next echo5.HandlerFunc) echo5.HandlerFunc {
		return func(c *echo5.Context) error { c.Set("key", t); return next(c) }
	}, echo5limit.New(limiter, echo5limit.ByIP()))

	checkAdded(t, "fiber v2", func(t *testing.T, middleware fiber2.Handler) func() {
		app := fiber2.New(fiber2.Config{DisableStartupMessage: true})
		app.Get("/", middleware, func(c *fiber2.Ctx) error { return c.SendStatus(http.StatusNoContent) })
		return fasttest.Request(t, app.Handler())
	}, func(c *fiber2.Ctx) error { return c.Next() }, func(c *fiber2.Ctx) error {
		c.Locals(addedKey{}, t)
		return c.Next()
	}, fiber2limit.New(limiter, fiber2limit.ByIP()))

	checkAdded(t, "fiber v3", func(t *testing.T, middleware fiber3.Handler) func() {
		app := fiber3.New()
		app.Get("/", middleware, func(c fiber3.Ctx) error { return c.SendStatus(http.StatusNoContent) })
		return fasttest.Request(t, app.Handler())
	}, func(c fiber3.Ctx) error { return c.Next() }, func(c fiber3.Ctx) error {
		c.Locals(addedKey{}, t)
		return c.Next()
	}, fiber3limit.New(limiter, fiber3limit.ByIP()))
}
