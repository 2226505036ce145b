package fasttest

import (
	"net/http"
	"testing"

	"github.com/valyala/fasthttp"
)

// Request returns a function that has handler serve the same request again and
// again. handler must answer 204.
func Request(t *testing.T, handler fasthttp.RequestHandler) func() {
	c := new(fasthttp.RequestCtx)
	return func() {
		c.ResetUserValues()
		c.Response.Reset()
		handler(c)
		if status := c.Response.StatusCode(); status != http.StatusNoContent {
			t.Fatalf("the premise: every request is allowed, and one was answered %d", status)
		}
	}
}
