//go:build !js

package main

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/labstack/echo/v4"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

// through is what the page says of them.
const through = ""

// frameworks serve the same endpoint, each in its own way, limited by its own middleware.
var frameworks = []framework{
	{"gin", ginApp},
	{"echo", echoApp},
	{"chi", chiApp},
	{"fiber", fiberApp},
	{"http", httpApp},
}

func ginApp(l *core.Limiter, s settings) http.Handler {
	key := map[string]ginlimit.KeyFunc{"client": ginlimit.Global("demo"), "user": ginlimit.ByHeader(userHeader), "ip": ginlimit.ByIP()}[s.Key]
	r := gin.New()
	r.GET("/gin/limited", ginlimit.New(l, key,
		ginlimit.WithCost(func(*gin.Context) (int64, error) { return s.Cost, nil }),
		ginlimit.WithUnits(func(*gin.Context) (core.Units, error) { return s.charged(), nil }),
		ginlimit.WithSettle(func(*gin.Context, int) core.Units { return s.used() }),
	), func(c *gin.Context) {
		s.work()
		res, _ := ginlimit.FromContext(c)
		c.JSON(http.StatusOK, hello{c.GetHeader(userHeader), "gin", res.Source.String()})
	})
	return r
}

func echoApp(l *core.Limiter, s settings) http.Handler {
	key := map[string]echolimit.KeyFunc{"client": echolimit.Global("demo"), "user": echolimit.ByHeader(userHeader), "ip": echolimit.ByIP()}[s.Key]
	e := echo.New()
	e.GET("/echo/limited", func(c echo.Context) error {
		s.work()
		res, _ := echolimit.FromContext(c)
		return c.JSON(http.StatusOK, hello{c.Request().Header.Get(userHeader), "echo", res.Source.String()})
	}, echolimit.New(l, key,
		echolimit.WithCost(func(echo.Context) (int64, error) { return s.Cost, nil }),
		echolimit.WithUnits(func(echo.Context) (core.Units, error) { return s.charged(), nil }),
		echolimit.WithSettle(func(echo.Context, int) core.Units { return s.used() }),
	))
	return e
}

func chiApp(l *core.Limiter, s settings) http.Handler {
	key := map[string]chilimit.KeyFunc{"client": chilimit.Global("demo"), "user": chilimit.ByHeader(userHeader), "ip": chilimit.ByIP()}[s.Key]
	r := chi.NewRouter()
	r.With(chilimit.New(l, key,
		chilimit.WithCost(func(*http.Request) (int64, error) { return s.Cost, nil }),
		chilimit.WithUnits(func(*http.Request) (core.Units, error) { return s.charged(), nil }),
		chilimit.WithSettle(func(*http.Request, int) core.Units { return s.used() }),
	)).Get("/chi/limited", func(w http.ResponseWriter, r *http.Request) {
		s.work()
		res, _ := chilimit.FromContext(r.Context())
		writeJSON(w, http.StatusOK, hello{r.Header.Get(userHeader), "chi", res.Source.String()})
	})
	return r
}

func fiberApp(l *core.Limiter, s settings) http.Handler {
	key := map[string]fiberlimit.KeyFunc{"client": fiberlimit.Global("demo"), "user": fiberlimit.ByHeader(userHeader), "ip": fiberlimit.ByIP()}[s.Key]
	app, known := fiber.New(), &contexts{}
	app.Get("/fiber/limited", func(c *fiber.Ctx) error {
		c.SetUserContext(known.of(c.Get(contextHeader)))
		return c.Next()
	}, fiberlimit.New(l, key,
		fiberlimit.WithCost(func(*fiber.Ctx) (int64, error) { return s.Cost, nil }),
		fiberlimit.WithUnits(func(*fiber.Ctx) (core.Units, error) { return s.charged(), nil }),
		fiberlimit.WithSettle(func(*fiber.Ctx, int) core.Units { return s.used() }),
	), func(c *fiber.Ctx) error {
		s.work()
		res, _ := fiberlimit.FromContext(c)
		return c.JSON(hello{c.Get(userHeader), "fiber", res.Source.String()})
	})
	shared := adaptor.FiberApp(app) // fiber is no net/http: this lets it share the port
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { known.through(w, r, shared) })
}

// contexts carry the contexts of requests past an adaptor that copies nothing of a request but its text.
type contexts struct{ byID sync.Map }

const contextHeader = "X-Demo-Context"

// through serves r by next, where of finds r's context again.
func (c *contexts) through(w http.ResponseWriter, r *http.Request, next http.Handler) {
	id := rand.Text()
	c.byID.Store(id, r.Context())
	defer c.byID.Delete(id)
	r.Header.Set(contextHeader, id)
	next.ServeHTTP(w, r)
}

func (c *contexts) of(id string) context.Context {
	if kept, ok := c.byID.Load(id); ok {
		return kept.(context.Context)
	}
	return context.Background()
}
