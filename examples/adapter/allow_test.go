package fasthttplimit_test

import (
	"net/http"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	fasthttplimit "github.com/tokenbucket-go/ratelimit/examples/adapter"
)

func TestAllowWithinAHandler(t *testing.T) {
	adaptertest.CheckAllow(t, func(limiter *core.Limiter) func(string) *http.Response {
		return func(user string) *http.Response {
			var c fasthttp.RequestCtx
			if res, ok := fasthttplimit.Allow(&c, limiter, adaptertest.LoginKey(user)); ok {
				if user == "ann" {
					_ = res.Undo(t.Context())
				}
				c.SetStatusCode(http.StatusNoContent)
			}
			answer := &http.Response{StatusCode: c.Response.StatusCode(), Header: http.Header{}}
			for name, value := range c.Response.Header.All() {
				answer.Header.Add(string(name), string(value))
			}
			return answer
		}
	})
}
