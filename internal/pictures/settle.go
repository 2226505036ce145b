package pictures

import (
	"context"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// drawSettle shows three calls that are charged an estimate: one uses less, one
// uses more, and one fails.
func drawSettle() *canvas {
	const (
		top, floor        = 132.0, 332.0
		takes, end        = 5 * time.Second, 31 * time.Second
		capacity, charged = 3000, 1000
	)
	c := newCanvas(470, "Charge an estimate, then settle what was used")
	x := func(at time.Duration) float64 { return scale(at.Seconds(), end.Seconds(), margin+56, width-margin) }
	y := func(tokens float64) float64 { return scale(tokens, capacity, floor, top) }

	ann := newClient(core.PerDay(capacity).WithMode(core.Aligned).WithUnit("tokens"))
	type change struct {
		at    time.Duration
		after level
		by    int64
	}
	var changes []change
	do := func(at time.Duration, call func() error) {
		ann.waitUntil(at, time.Second)
		before := ann.levels[len(ann.levels)-1]
		core.Must(true, call())
		ann.note()
		after := ann.levels[len(ann.levels)-1]
		changes = append(changes, change{at, after, int64(after.tokens - before.tokens)})
	}
	for i, one := range []struct {
		name, call string
		settle     func(*core.Result) error
	}{
		{"uses less", "settle 400", func(res *core.Result) error { return res.Settle(context.Background(), core.Units{"tokens": 400}) }},
		{"uses more", "settle 1,300", func(res *core.Result) error { return res.Settle(context.Background(), core.Units{"tokens": 1300}) }},
		{"fails", "undo", func(res *core.Result) error { return res.Undo(context.Background()) }},
	} {
		begins := time.Duration(i)*10*time.Second + 2*time.Second
		left, right := x(begins), x(begins+takes)
		c.rect(left, top-22, right-left, floor-top+22, 0, "sunk")
		c.text(left, top-34, "text bold", one.name)
		var res core.Result
		do(begins, func() (err error) {
			res, err = ann.limiter.AllowUnits(context.Background(), key, core.Units{"tokens": charged})
			return err
		})
		do(begins+takes, func() error { return one.settle(&res) })
		c.text(left, floor+34, "soft", "charge 1,000")
		c.text(left, floor+60, "soft", one.call)
	}
	ann.waitUntil(end, time.Second)
	c.scaleY(x(0), width-margin, y, 0, 1000, 2000, 3000)
	c.curve(points(ann.levels, x, y), floor)
	for _, change := range changes {
		c.text(x(change.at)+10, y(change.after.tokens)-10, "text", signed(change.by))
	}
	c.rect(margin, floor+90, 16, 16, 3, "sunk")
	c.rect(margin, floor+90, 16, 16, 3, "grid-line")
	c.text(margin+26, floor+104, "soft", "the call runs")
	c.describe("Three calls are charged 1,000 tokens each before they run. The first used 400 tokens, and Settle returns %d. "+
		"The second used 1,300, and Settle charges %d more. The third failed, and Undo returns %s.",
		changes[1].by, -changes[3].by, thousands(changes[5].by))
	return c
}

// signed returns n with its sign.
func signed(n int64) string {
	if n < 0 {
		return "−" + thousands(-n)
	}
	return "+" + thousands(n)
}
