package chilimit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/internal/endings"
)

func TestMiddlewareThatAnswers(t *testing.T) {
	endings.Run(t, "chi", synctest.Test, func(t *testing.T, c endings.Case) int {
		limit := []func(http.Handler) http.Handler{
			chilimit.New(c.Slots, chilimit.Global(endings.Key)),
			chilimit.New(c.Calls, chilimit.Global(endings.Key), chilimit.WithRefund(func(_ *http.Request, status int) bool { return c.See(status) })),
		}
		var use func(http.Handler) http.Handler
		var handler http.HandlerFunc
		switch c.Middleware {
		case "Timeout":
			use = middleware.Timeout(time.Millisecond)
			handler = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		case "Recoverer":
			use = middleware.Recoverer
			handler = func(http.ResponseWriter, *http.Request) { panic("a handler's mistake") }
		default:
			t.Fatalf("the test does not know %q", c.Middleware)
		}
		r := chi.NewRouter()
		r.Use(endings.Order(c, use, limit...)...)
		r.Post("/", handler)
		return endings.Ask(r)
	})
}
