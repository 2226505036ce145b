package pictures

import (
	"context"
	"fmt"
	"time"
	_ "time/tzdata" // the picture does not depend on the machine's time zones

	"github.com/tokenbucket-go/ratelimit/core"
)

// drawMonth shows a budget by the month in a place with summer time, from
// February to April.
func drawMonth() *canvas {
	const top, floor, perDay = 112.0, 268.0, 34
	berlin := core.Must(time.LoadLocation("Europe/Berlin"))
	from := time.Date(2026, time.February, 1, 0, 0, 0, 0, berlin)
	to := time.Date(2026, time.April, 15, 0, 0, 0, 0, berlin)
	c := newCanvas(376, "1,000 a month in Berlin; a client takes 34 a day")
	x := func(at time.Duration) float64 {
		return scale(float64(at), float64(to.Sub(from)), margin+56, width-margin)
	}
	y := func(tokens float64) float64 { return scale(tokens, 1000, floor, top) }

	time.Sleep(time.Until(from))
	ann := newClient(core.PerMonth(1000).In(berlin))
	var months []time.Time // when they begin
	var left int64         // at the end of February
	for day := from; day.Before(to); day = day.AddDate(0, 0, 1) {
		ann.waitUntil(day.Add(12*time.Hour).Sub(from), time.Hour)
		res := core.Must(ann.limiter.AllowAtMost(context.Background(), key, perDay))
		if day.Month() == time.February {
			left = res.Remaining
		}
		if next := time.Now().Add(res.ResetAfter); len(months) == 0 || !next.Equal(months[len(months)-1]) {
			months = append(months, next)
		}
	}
	ann.waitUntil(to.Sub(from), time.Hour)

	c.scaleY(x(0), width-margin, y, 0, 500, 1000)
	c.curve(points(ann.levels, x, y), floor)
	for _, begins := range months[:2] {
		at := x(begins.Sub(from))
		c.line([]point{{at, top - 16}, {at, floor + 12}}, 1.5, "soft-line", "3 4")
		c.text(at, floor+34, "text middle", begins.In(berlin).Format("2 January 15:04"))
		c.text(at, floor+60, "soft middle", begins.UTC().Format("2 Jan 15:04 MST"))
	}
	for i, lines := range [][2]string{{fmt.Sprintf("%d left:", left), "lost"}, {"used up:", "denied"}} {
		at := x(months[i].Sub(from)) - 10
		c.text(at, y(700), "text end", lines[0])
		c.text(at, y(700)+24, "text end", lines[1])
	}
	const instant = "2 January 15:04"
	c.describe("February ends with %d tokens left, which do not add to March. In March the budget is used up before the month ends, and the client "+
		"is denied. Each month begins at midnight in Berlin: on %s UTC and, in summer time, on %s UTC.",
		left, months[0].UTC().Format(instant), months[1].UTC().Format(instant))
	return c
}
