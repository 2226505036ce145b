package pictures

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// drawRequest shows what a request passes, from the middleware to the script and back. Its numbers are those of a real answer.
func drawRequest() *canvas {
	const (
		top, box, gap  = 128.0, 72.0, 56.0
		down, up, deep = margin + 28, margin + 310, 46.0
	)
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60).WithBurst(20)}, Headers: core.HeadersIETF,
	}))
	var res core.Result
	handler := httplimit.New(limiter, httplimit.ByHeader("X-User"))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		res, _ = httplimit.FromContext(r.Context())
	}))
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.Header.Set("X-User", key)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)

	parts := []struct{ name, does, down, up string }{
		{"Middleware", "finds the key and the cost", "GET /", fmt.Sprintf("%d, RateLimit: %s", answer.Code, answer.Header().Get("RateLimit"))},
		{"Limiter", "applies the policy; if Redis is away, OnFailure", fmt.Sprintf("%s, cost %d", key, res.Cost), fmt.Sprintf("Remaining %d", res.Remaining)},
		{"Leases and denials", "answer without a call, if they can", res.Limits()[0].Limit.String(), "level"},
		{"Breaker and queue", "put up to 512 decisions into one call", "", ""},
		{"Script in Redis", "refills, checks and takes, in one step", "EVALSHA", "allowed, level 19"},
	}
	c := newCanvas(top+float64(len(parts))*(box+gap)-gap+margin, "One request's way to Redis and back",
		"A request passes the middleware, the limiter, leases and denials, the breaker and the queue, and is decided by the script in Redis. "+
			"The answer comes back the same way, and gets its header fields in the middleware.")
	for i, part := range parts {
		y := top + float64(i)*(box+gap)
		c.arrow(point{down, y - gap + 4}, point{down, y - 4}, "accent", "")
		c.arrow(point{up, y - 4}, point{up, y - gap + 4}, "accent", "")
		c.text(down+18, y-gap/2+6, "text", part.down)
		c.text(up+18, y-gap/2+6, "text", part.up)
		c.rect(margin, y, width-2*margin, box, 10, "tint")
		c.text(margin+24, y+30, "text bold", part.name)
		c.text(margin+24, y+56, "soft", part.does)
	}
	_ = deep
	return c
}
