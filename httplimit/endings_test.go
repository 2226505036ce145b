package httplimit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/endings"
)

func TestMiddlewareThatAnswers(t *testing.T) {
	endings.Run(t, "net/http", synctest.Test, func(t *testing.T, c endings.Case) int {
		limit := func(h http.Handler) http.Handler {
			h = httplimit.New(c.Calls, httplimit.Global(endings.Key), httplimit.WithRefund(func(_ *http.Request, status int) bool { return c.See(status) }))(h)
			return httplimit.New(c.Slots, httplimit.Global(endings.Key))(h)
		}
		var use func(http.Handler) http.Handler
		var handler http.HandlerFunc
		switch c.Middleware {
		case "http.TimeoutHandler":
			use = func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Millisecond, "") }
			handler = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		default:
			t.Fatalf("the test does not know %q", c.Middleware)
		}
		h := use(limit(handler))
		if c.InFront {
			h = limit(use(handler))
		}
		return endings.Ask(h)
	})
}
