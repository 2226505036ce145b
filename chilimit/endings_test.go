package chilimit_test

import (
	"io"
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
		case "Compress":
			use = middleware.Compress(5)
			handler = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write(make([]byte, 4096))
			}
		case "Recoverer":
			use = middleware.Recoverer
			handler = func(http.ResponseWriter, *http.Request) { panic("a handler's mistake") }
		case "RequestSize":
			use = middleware.RequestSize(8)
			handler = func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err != nil {
					http.Error(w, "too large", http.StatusRequestEntityTooLarge)
				}
			}
		default:
			t.Fatalf("the test does not know %q", c.Middleware)
		}
		r := chi.NewRouter()
		r.Use(endings.Order(c, use, limit...)...)
		r.Post("/", handler)
		return endings.Ask(r)
	})
}
