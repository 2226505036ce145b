package pictures

import (
	"context"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// key is whose bucket the pictures show.
const key = "ann"

// client sends requests to a limiter of its own, and notes its bucket's level
// over time.
type client struct {
	limiter *core.Limiter
	began   time.Time
	levels  []level
}

// level is how many tokens a bucket had at an instant, counted from when its
// client began.
type level struct {
	at     time.Duration
	tokens float64
}

// newClient returns a client of a bucket in memory.
func newClient(limit core.Limit) *client {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{limit}}))
	return &client{limiter: limiter, began: time.Now()}
}

// now is the time since the client began.
func (c *client) now() time.Duration { return time.Since(c.began) }

// waitUntil sleeps until at, and notes the level on the way, every step.
func (c *client) waitUntil(at, step time.Duration) {
	for c.note(); c.now() < at; c.note() {
		time.Sleep(min(step, at-c.now()))
	}
}

// ask sends n requests at once, and returns how many are allowed and the last
// decision.
func (c *client) ask(n int) (allowed int, last core.Result) {
	c.note()
	for range n {
		last = core.Must(c.limiter.Allow(context.Background(), key))
		if last.Allowed {
			allowed++
		}
	}
	c.note()
	return allowed, last
}

// note appends the bucket's level. Result has whole tokens; a continuous limit
// has the fraction in ResetAfter.
func (c *client) note() {
	res := core.Must(c.limiter.Peek(context.Background(), key)).Limits()[0]
	tokens := float64(res.Remaining)
	if l := res.Limit; l.Mode == core.Continuous {
		tokens = float64(l.Capacity) - l.RefillRate*float64(res.ResetAfter)/float64(l.RefillInterval)
	}
	now, n := c.now(), len(c.levels)
	if n > 0 && res.Limit.Mode != core.Continuous {
		c.levels = append(c.levels, level{now, c.levels[n-1].tokens}) // tokens come at once
	}
	c.levels = append(c.levels, level{now, tokens})
}

// points are levels on a canvas: x and y say where an instant and a number of
// tokens are.
func points(levels []level, x func(time.Duration) float64, y func(float64) float64) []point {
	var points []point
	for _, l := range levels {
		points = append(points, point{x(l.at), y(l.tokens)})
	}
	return points
}
