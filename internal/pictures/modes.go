package pictures

import (
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// drawModes shows the three modes with the same requests: six at once, and then
// one every five seconds.
func drawModes() *canvas {
	const (
		first, every, end = 20 * time.Second, 5 * time.Second, 180 * time.Second
		row, high         = 152.0, 66.0
	)
	c := newCanvas(600, "6 a minute, in three modes, with the same requests")
	x := func(at time.Duration) float64 {
		return scale(at.Seconds(), end.Seconds(), margin+26, width-margin-26)
	}
	const foot = 170 + row*2 + 62
	for at := time.Duration(0); at <= end; at += time.Minute {
		c.line([]point{{x(at), 84}, {x(at), foot - 18}}, 1.5, "grid-line", "2 5")
		c.text(x(at), foot+6, "soft middle", fmt.Sprintf("12:%02d", int(at.Minutes())))
	}
	for i, mode := range []core.Mode{core.Continuous, core.Stepped, core.Aligned} {
		floor := 170 + row*float64(i)
		y := func(tokens float64) float64 { return scale(tokens, 6, floor, floor-high) }
		about := [...]string{"a token every 10 s", "6 tokens a minute after the first request", "6 tokens at each full minute"}[i]
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))) // each row begins at a full minute
		ann := newClient(core.Per(6, time.Minute).WithMode(mode))
		c.heading(floor-high-14, mode.String(), about, 140)
		marks := floor + 22
		for at := first; at < end; at += every {
			ann.waitUntil(at, time.Second)
			sent := 1
			if at == first {
				sent = 6
			}
			allowed, _ := ann.ask(sent)
			c.count(x(at), marks, allowed, true)
			c.count(x(at), marks, sent-allowed, false)
		}
		ann.waitUntil(end, time.Second)
		c.curve(points(ann.levels, x, y), floor)
	}
	c.key(width-margin-205, foot+42)
	c.describe("A client sends 6 requests at 20 seconds past the minute, and then one every 5 seconds. Continuous allows one every 10 seconds. " +
		"Stepped allows 6 again a minute after the first. Aligned allows 6 again at each full minute.")
	return c
}
