package pictures

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// drawRequest shows what a request goes through, from the middleware to the script
// and back. Its numbers are those of a real answer.
func drawRequest() *canvas {
	const down, up, gap = margin + 28, margin + 290, 58
	limit := core.PerMinute(60).WithBurst(20)
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{limit}, Headers: core.HeadersDraft8,
	}))
	var res core.Result
	handler := httplimit.New(limiter, httplimit.ByHeader("X-User"))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		res, _ = httplimit.FromContext(r.Context())
	}))
	request := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
	request.Header.Set("X-User", key)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)

	parts := []struct {
		name, down, up string
		does           []string
	}{
		{"Middleware", "GET /", fmt.Sprintf("%d, RateLimit: %s", answer.Code, answer.Header().Get("RateLimit")), []string{"finds key and cost; runs the handler or denies"}},
		{"Limiter", fmt.Sprintf("%s, cost %d", key, res.Cost), fmt.Sprintf("Remaining %d", res.Remaining), []string{"applies the policy; while Redis is away, OnFailure"}},
		{"Store", limit.String(), fmt.Sprintf("allowed, %d tokens left", res.Remaining), []string{
			"leases and denials answer at once, if they can", "the queue puts up to 512 decisions into one call",
		}},
		{"Script in Redis", "EVALSHA", "an answer for each decision", []string{"refills the bucket, checks and takes, in one step"}},
	}
	const line = 26
	y := 130.0
	c := newCanvas(y+4*(44+gap)+5*line-gap+margin-8, "One request's way to Redis and back")
	for _, part := range parts {
		c.arrow(point{down, y - gap + 6}, point{down, y - 6}, "accent")
		c.arrow(point{up, y - 6}, point{up, y - gap + 6}, "accent")
		c.text(down+18, y-gap/2+6, "text", part.down)
		c.text(up+18, y-gap/2+6, "text", part.up)
		high := 44 + line*float64(len(part.does))
		c.rect(margin, y, width-2*margin, high, 10, "tint")
		c.text(margin+24, y+30, "text bold", part.name)
		for i, does := range part.does {
			c.text(margin+24, y+30+line*float64(i+1), "soft", does)
		}
		y += high + gap
	}
	c.describe("A request goes through the middleware, the limiter, and the store, which has leases, denials, and a queue. The script in Redis decides it. " +
		"The answer comes back the same way, and the middleware writes its header fields.")
	return c
}
