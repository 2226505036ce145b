package pictures

import (
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// drawFirstMinute shows how many requests two limits admit in a minute that
// begins with a full bucket.
func drawFirstMinute() *canvas {
	const top, floor = 96.0, 336.0
	c := newCanvas(400, "A client that sends all it can in its first minute")
	x := func(at time.Duration) float64 { return scale(at.Seconds(), 60, margin+44, width-margin-200) }
	y := func(requests float64) float64 { return scale(requests, 120, floor, top) }

	c.scaleY(x(0), x(time.Minute), y, 0, 60, 120)
	for _, s := range []int{0, 20, 40, 60} {
		c.text(x(time.Duration(s)*time.Second), floor+28, "soft middle", fmt.Sprintf("%d s", s))
	}
	var totals []any
	for _, limit := range []core.Limit{core.PerMinute(60), core.PerMinute(48).WithBurst(12)} {
		ann := newClient(limit)
		total, _ := ann.ask(200)
		c.text(x(0)+14, y(float64(total)+23), "text", fmt.Sprintf("%d at once", total))
		admitted := []level{{0, 0}, {0, float64(total)}}
		for {
			time.Sleep(time.Second / 4)
			if ann.now() >= time.Minute {
				break
			}
			if allowed, _ := ann.ask(1); allowed == 1 {
				admitted = append(admitted, level{ann.now(), float64(total)}, level{ann.now(), float64(total + 1)})
				total++
			}
		}
		admitted = append(admitted, level{time.Minute, float64(total)})
		c.line(points(admitted, x, y), 3, "accent-line", "")
		c.text(x(time.Minute)+16, y(float64(total))+2, "text bold", fmt.Sprintf("%d requests", total))
		c.text(x(time.Minute)+16, y(float64(total))+26, "soft", limit.String())
		totals = append(totals, total)
	}
	c.describe("With 60 requests a minute and a burst of 60, 60 requests are allowed at once, and one more each second: %d in the first minute. "+
		"With 48 a minute and a burst of 12, %d are allowed.", totals...)
	return c
}
