package pictures

import (
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// drawBucket shows one client's bucket: full, a burst, refilling, a burst that
// is too large, and a client that goes on asking.
func drawBucket() *canvas {
	const (
		top, floor, lane = 112.0, 292.0, 326.0
		end              = 36 * time.Second
	)
	limit := core.PerMinute(60).WithBurst(10)
	c := newCanvas(430, "A bucket of 10 tokens that gains one a second")
	x := func(at time.Duration) float64 { return scale(at.Seconds(), end.Seconds(), margin+34, width-margin) }
	y := func(tokens float64) float64 { return scale(tokens, float64(limit.Capacity), floor, top) }

	c.scaleY(x(0), width-margin, y, 0, 5, 10)
	ann := newClient(limit)
	ask := func(s, n int) (allowed int, last core.Result) {
		at := time.Duration(s) * time.Second
		ann.waitUntil(at, time.Second/4)
		allowed, last = ann.ask(n)
		c.count(x(at), lane, allowed, true)
		c.count(x(at), lane+32, n-allowed, false)
		return allowed, last
	}
	ask(3, 6)
	allowed, denied := ask(13, 14)
	for s := 14; s <= 20; s++ {
		ask(s, 2)
	}
	ann.waitUntil(end, time.Second/4)

	c.curve(points(ann.levels, x, y), floor)
	c.text(x(3*time.Second), y(10)-14, "text", "6 at once")
	c.text(x(13*time.Second), y(10)-14, "text", "14 at once")
	c.text(x(13*time.Second)+14, y(4), "text", "empty: denied,")
	c.text(x(13*time.Second)+14, y(4)+24, "text", fmt.Sprintf("retry after %v s", denied.RetryAfter.Seconds()))
	c.text(x(27*time.Second), y(4.2), "text", "1 token")
	c.text(x(27*time.Second), y(4.2)+24, "text", "a second")
	for s := 0; s <= 30; s += 10 {
		c.text(x(time.Duration(s)*time.Second), lane+78, "soft middle", fmt.Sprintf("%d s", s))
	}
	c.text(x(30*time.Second), y(10)-14, "text", "full")
	c.text(width-margin, lane+6, "soft end", "allowed")
	c.text(width-margin, lane+38, "soft end", "denied")
	c.describe("The bucket is full. A burst of 6 requests takes 6 tokens, which come back one a second. Of a burst of 14 requests %d are allowed. "+
		"While the client goes on asking, each new token allows one request. When it pauses, the bucket fills up and stays full.", allowed)
	return c
}
