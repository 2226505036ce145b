package pictures

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/bucketform"
)

// Where a burst's requests wait, the rim at which they meet the bucket, and
// where they end. Each is a corner of a pill.
var (
	askAt, rimAt, doneAt = point{36, 150}, point{329, 160}, point{482, 150}
	cell                 = point{70, 40} // from a pill to the next column and row
	pill                 = point{62, 26}
	rows                 = 5
)

// travel is how long a request takes to the rim, and from there on.
const travel = 500 * time.Millisecond

// drawBurst shows a burst of 15 requests for 10 tokens, the denials, the refill,
// and a request that waits and is allowed.
func drawBurst() *canvas {
	const (
		size, apart  = 15, 30 * time.Millisecond
		burst, later = 1100 * time.Millisecond, 3600 * time.Millisecond
		step         = 10 * time.Millisecond
	)
	limit := core.PerSecond(1).WithBurst(10)
	ann := newClient(limit)
	c := newCanvas(456, "Ten tokens. Every request takes one.")
	c.text(margin, 74, "text", "One comes back each second.")

	var allowed, denied int
	var pills []func()
	for i := range size {
		at := burst + time.Duration(i)*apart
		ann.waitUntil(at, step)
		n, res := ann.ask(1)
		from, id := place(askAt, size-1-i), fmt.Sprintf("p%d", i)
		if n == 1 {
			to := place(doneAt, allowed)
			pills = append(pills, func() { c.allow(id, from, to, 0, at) })
			allowed++
			continue
		}
		to, until := place(askAt, 2*rows+denied), loop
		if denied == 0 {
			until = later - travel // the first to ask again
		}
		pills = append(pills, func() { c.deny(id, from, to, at, until, fmt.Sprintf("retry in %.1f s", res.RetryAfter.Seconds())) })
		denied++
	}
	ann.waitUntil(later, step)
	if n, _ := ann.ask(1); n == 1 {
		pills = append(pills, func() { c.allow("again", place(askAt, 2*rows), place(doneAt, 2*rows+rows-1), later-travel, later) })
	}
	ann.waitUntil(loop, step)

	const fade = 250 * time.Millisecond
	c.moving("scene", []frame{{0, hidden}, {fade, seen}, {loop - fade, seen}, {loop, hidden}}, func() {
		c.bucket(spans(ann.levels), int(limit.Capacity))
		for _, pill := range pills {
			pill()
		}
		c.caption("caption1", 0, burst+travel/2, fmt.Sprintf("%d requests at once", size))
		c.caption("caption2", burst+travel/2, later, fmt.Sprintf("%d allowed, %d denied: 429 says when to retry", allowed, denied))
		c.caption("caption3", later, loop, "One retries when a token is back: 200")
	})
	c.describe("A bucket has 10 tokens. A burst of %d requests comes: %d are allowed and %d are denied. One token comes back each second. "+
		"A denied request comes again when a token is back, and is allowed.", size, allowed, denied)
	return c
}

// caption says what happens, between two instants.
func (c *canvas) caption(id string, from, to time.Duration, text string) {
	c.moving(id, []frame{{from, hidden}, {from, seen}, {to, seen}, {to, hidden}}, func() { c.text(width/2, 426, "text middle", text) })
}

// place is where the pill n of a block stands, counted down its columns.
func place(block point, n int) point {
	return point{block.x + cell.x*float64(n/rows), block.y + cell.y*float64(n%rows)}
}

// span is a time in which a bucket has n whole tokens. Of the next it has the
// share begin at first and end at last.
type span struct {
	from, to   time.Duration
	n          int
	begin, end float64
}

// spans are those of a bucket's levels.
func spans(levels []level) (spans []span) {
	for _, l := range levels {
		n := int(l.tokens + 1e-6)
		share := max(0, l.tokens-float64(n))
		last := len(spans) - 1
		switch {
		case last >= 0 && spans[last].n == n:
			spans[last].to, spans[last].end = l.at, share
			continue
		case last >= 0 && spans[last].n < n:
			spans[last].end = 1
		}
		if last >= 0 {
			spans[last].to = l.at
		}
		spans = append(spans, span{l.at, l.at, n, share, share})
	}
	return spans
}

// bucket draws a disc for each token, how much of the next is there as a ring
// at the rim, how many are left, and a rim that is closed while none is.
func (c *canvas) bucket(spans []span, capacity int) {
	f := bucketform.Of(rimAt.x+pill.x/2, 300, 38, capacity)
	radius := f.Pitch * bucketform.Disc
	c.path(f.Body(), 0, "sunk")
	c.path(f.Body(), 2, "edge-line")
	for k := range capacity {
		x, y := f.Token(k)
		slot := during(spans, func(s span) bool { return s.n <= k })
		c.moving(fmt.Sprintf("slot%d", k), slot, func() {
			fmt.Fprintf(&c.body, `<circle cx="%s" cy="%s" r="%s" stroke-width="1.2" stroke-dasharray="3 4" class="edge-line"/>`+"\n", number(x), number(y), number(radius))
		})
	}
	c.path(f.Mouth(), 2, "edge-line")
	for k := range capacity {
		x, y := f.Token(k)
		there := by(point{x, y}, point{f.X, rimAt.y + pill.y/2})
		disc := []frame{{0, seen}}
		for i, s := range spans {
			if i > 0 && spans[i-1].n > k && s.n <= k { // the request takes it along
				disc = append(disc, frame{s.from, seen}, frame{s.from + travel/3, there}, frame{s.from + travel/3, gone(there)})
			} else if i > 0 && spans[i-1].n <= k && s.n > k {
				disc = append(disc, frame{s.from, disc[len(disc)-1].pose}, frame{s.from, hidden}, frame{s.from, seen})
			}
		}
		c.moving(fmt.Sprintf("disc%d", k), disc, func() { c.circle(x, y, radius, "accent") })
	}
	c.moving("closed", during(spans, func(s span) bool { return s.n == 0 }), func() {
		c.path(f.Mouth(), 0, "alarm")
		c.path(f.Mouth(), 2.5, "denied-line")
	})
	ring := []frame{{0, hidden}}
	for _, s := range spans {
		if s.end-s.begin > 0.05 {
			ring = append(ring, frame{s.from, hidden}, frame{s.from, pose{opacity: 1, missing: 1 - s.begin}}, frame{s.to, pose{opacity: 1, missing: 1 - s.end}}, frame{s.to, hidden})
		}
	}
	c.moving("ring", ring, func() {
		fmt.Fprintf(&c.body, `<path d="%s" pathLength="1" stroke-dasharray="1" stroke-width="4" class="accent-line"/>`+"\n", f.Mouth())
	})
	for n := range capacity + 1 {
		c.moving(fmt.Sprintf("left%d", n), during(spans, func(s span) bool { return s.n == n }), func() {
			ink, tokens := "text", " tokens left"
			if n == 0 {
				ink = "denied"
			} else if n == 1 {
				tokens = " token left"
			}
			c.text(f.X, f.Floor+32, ink+" bold middle", strconv.Itoa(n)+tokens)
		})
	}
}

// path draws a path: its area, or a line so thick.
func (c *canvas) path(d string, thick float64, class string) {
	line := ""
	if thick > 0 {
		line = fmt.Sprintf(` stroke-width="%s"`, number(thick))
	}
	fmt.Fprintf(&c.body, `<path d="%s"%s class="%s"/>`+"\n", d, line, class)
}

// allow draws a request that is allowed at an instant: it goes to the rim, takes
// a token, and becomes a 200.
func (c *canvas) allow(id string, from, to point, appears, at time.Duration) {
	rim, end := by(from, rimAt), by(from, to)
	asks := []frame{{appears, hidden}, {appears, seen}, {at - travel, seen}, {at, rim}, {at, gone(rim)}}
	c.moving(id, asks, func() { c.pill(from, "GET /", "tint", "grid-line", "text") })
	c.moving(id+"ok", []frame{{at, gone(rim)}, {at, rim}, {at + travel, end}}, func() { c.pill(from, "200", "paper", "allowed-line", "allowed bold") })
}

// deny draws a request that is denied at an instant: at the closed rim it
// becomes a 429, and says how long to wait.
func (c *canvas) deny(id string, from, to point, at, until time.Duration, wait string) {
	rim, end := by(from, rimAt), by(from, to)
	c.moving(id, []frame{{at - travel, seen}, {at, rim}, {at, gone(rim)}}, func() { c.pill(from, "GET /", "tint", "grid-line", "text") })
	c.moving(id+"no", []frame{{at, gone(rim)}, {at, rim}, {at + travel, end}, {until, end}, {until, gone(end)}}, func() { c.pill(from, "429", "alarm", "denied-line", "denied bold") })
	c.moving(id+"wait", []frame{{at + travel, hidden}, {at + travel, seen}, {until, seen}, {until, hidden}}, func() { c.text(to.x-8, to.y+19, "soft end", wait) })
}

// pill draws a request with a word in it.
func (c *canvas) pill(at point, word, ground, edge, ink string) {
	c.rect(at.x, at.y, pill.x, pill.y, pill.y/2, ground)
	c.rect(at.x, at.y, pill.x, pill.y, pill.y/2, edge)
	c.text(at.x+pill.x/2, at.y+19, ink+" middle", word)
}

// by is the way from a to b.
func by(a, b point) pose { return pose{x: b.x - a.x, y: b.y - a.y, opacity: 1} }

// gone is the same place, with nothing to be seen.
func gone(p pose) pose { p.opacity = 0; return p }
