package pictures

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Where a burst's requests wait, the rim at which they meet the bucket, and
// where they end. Each is a corner of a pill.
var (
	askAt, rimAt, doneAt = point{36, 150}, point{329, 98}, point{482, 150}
	cell                 = point{70, 40} // from a pill to the next column and row
	pill                 = point{62, 26}
	rows                 = 5
)

// flight is how long a request takes to the rim, and from there on.
const flight = 500 * time.Millisecond

// drawBurst shows a burst of 15 requests for 10 tokens, the refusals, the
// refill, and a request that waits and is allowed.
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

	var allowed, refused int
	var pills []func()
	for i := range size {
		at := burst + time.Duration(i)*apart
		ann.waitUntil(at, step)
		n, res := ann.ask(1)
		from, id := place(askAt, size-1-i), fmt.Sprintf("p%d", i)
		if n == 1 {
			to := place(doneAt, allowed)
			pills = append(pills, func() { c.pass(id, from, to, 0, at) })
			allowed++
			continue
		}
		to, until := place(askAt, 2*rows+refused), loop
		if refused == 0 {
			until = later - flight // the first to ask again
		}
		pills = append(pills, func() { c.refuse(id, from, to, at, until, fmt.Sprintf("retry in %.1f s", res.RetryAfter.Seconds())) })
		refused++
	}
	ann.waitUntil(later, step)
	if n, _ := ann.ask(1); n == 1 {
		pills = append(pills, func() { c.pass("again", place(askAt, 2*rows), place(doneAt, 2*rows+rows-1), later-flight, later) })
	}
	ann.waitUntil(loop, step)

	const fade = 250 * time.Millisecond
	c.moving("scene", []frame{{0, hidden}, {fade, seen}, {loop - fade, seen}, {loop, hidden}}, func() {
		c.bucket(spans(ann.levels), int(limit.Capacity))
		for _, pill := range pills {
			pill()
		}
		c.caption("caption1", 0, burst+flight/2, fmt.Sprintf("%d requests at once", size))
		c.caption("caption2", burst+flight/2, later, fmt.Sprintf("%d allowed, %d refused: 429 says when to retry", allowed, refused))
		c.caption("caption3", later, loop, "One retries when a token is back: 200")
	})
	c.describe("A bucket has 10 tokens. A burst of %d requests comes: %d are allowed and %d are refused. One token comes back each second. "+
		"A refused request comes again when a token is back, and is allowed.", size, allowed, refused)
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

// bucket draws a disc for each token, a ring around the next that grows until
// it is there, how many are left, and a rim that is closed while none is.
func (c *canvas) bucket(spans []span, capacity int) {
	const radius, top, floor = 16.0, 138.0, 354.0
	rim := rimAt.x + pill.x/2
	slot := func(k int) (x, y float64) { return rim - 22 + 44*float64(k%2), floor - 28 - cell.y*float64(k/2) }
	for k := range capacity {
		x, y := slot(k)
		c.circle(x, y, radius, "edge-line")
	}
	for k := range capacity {
		x, y := slot(k)
		there := by(point{x, y}, point{rim, rimAt.y + pill.y/2})
		disc, ring := []frame{{0, seen}}, []frame{{0, hidden}}
		for i, s := range spans {
			if i > 0 && spans[i-1].n > k && s.n <= k { // the request takes it along
				disc = append(disc, frame{s.from, seen}, frame{s.from + flight/3, there}, frame{s.from + flight/3, gone(there)})
			} else if i > 0 && spans[i-1].n <= k && s.n > k {
				disc = append(disc, frame{s.from, disc[len(disc)-1].pose}, frame{s.from, hidden}, frame{s.from, seen})
			}
			if s.n == k && s.end-s.begin > 0.05 {
				ring = append(ring, frame{s.from, hidden}, frame{s.from, pose{opacity: 1, missing: 1 - s.begin}}, frame{s.to, pose{opacity: 1, missing: 1 - s.end}}, frame{s.to, hidden})
			}
		}
		c.moving(fmt.Sprintf("ring%d", k), ring, func() { c.ring(x, y, radius) })
		c.moving(fmt.Sprintf("disc%d", k), disc, func() { c.circle(x, y, radius, "accent") })
	}
	left, right := rim-62, rim+62
	c.line([]point{{left, top}, {left + 10, floor}, {right - 10, floor}, {right, top}}, 3, "soft-line", "")
	c.moving("closed", during(spans, func(s span) bool { return s.n == 0 }), func() { c.line([]point{{left - 4, top}, {right + 4, top}}, 6, "denied-line", "") })
	for n := range capacity + 1 {
		c.moving(fmt.Sprintf("left%d", n), during(spans, func(s span) bool { return s.n == n }), func() {
			ink := "text"
			if n == 0 {
				ink = "denied"
			}
			c.text(rim, floor+32, ink+" bold middle", strconv.Itoa(n)+" left")
		})
	}
}

// ring draws a circle that begins at its top and whose part can be missing.
func (c *canvas) ring(x, y, radius float64) {
	fmt.Fprintf(&c.body, `<path d="M%s %sa%[3]s %[3]s 0 1 1 -0.1 0" pathLength="1" stroke-dasharray="1" stroke-width="4" class="accent-line"/>`+"\n", number(x), number(y-radius), number(radius))
}

// pass draws a request that is allowed at an instant: it goes to the rim, takes
// a token, and becomes a 200.
func (c *canvas) pass(id string, from, to point, appears, at time.Duration) {
	rim, end := by(from, rimAt), by(from, to)
	asks := []frame{{appears, hidden}, {appears, seen}, {at - flight, seen}, {at, rim}, {at, gone(rim)}}
	c.moving(id, asks, func() { c.pill(from, "GET /", "tint", "edge-line", "text") })
	c.moving(id+"ok", []frame{{at, gone(rim)}, {at, rim}, {at + flight, end}}, func() { c.pill(from, "200", "paper", "allowed-line", "allowed bold") })
}

// refuse draws a request that is refused at an instant: at the closed rim it
// becomes a 429, and says how long to wait.
func (c *canvas) refuse(id string, from, to point, at, until time.Duration, wait string) {
	rim, end := by(from, rimAt), by(from, to)
	c.moving(id, []frame{{at - flight, seen}, {at, rim}, {at, gone(rim)}}, func() { c.pill(from, "GET /", "tint", "edge-line", "text") })
	c.moving(id+"no", []frame{{at, gone(rim)}, {at, rim}, {at + flight, end}, {until, end}, {until, gone(end)}}, func() { c.pill(from, "429", "alarm", "denied-line", "denied bold") })
	c.moving(id+"wait", []frame{{at + flight, hidden}, {at + flight, seen}, {until, seen}, {until, hidden}}, func() { c.text(to.x-8, to.y+19, "soft end", wait) })
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
