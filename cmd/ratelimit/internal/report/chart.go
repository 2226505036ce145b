package report

import (
	"fmt"
	"math"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// maxBars bounds the bars of a plot. More hours become days, months or years.
const maxBars = 240

// The units of a plot, whatever its size on the screen.
const (
	plotWidth  = 1000.0
	plotHeight = 100.0
)

// chart is plots one below the other, over the same times: of the requests, and
// of what each policy denies. The latter have one scale.
type chart struct {
	Period string // hour, day, month or year
	Plots  []plot
	Ticks  []tick // of the time axis
	Gutter int    // the letters of the longest number on a y-axis
}

// plot has a bar for each period that has something.
type plot struct {
	Title, Description string // the latter is for those who can't see it
	Denied             bool
	Bars               []bar
	Scale              []tick
}

// bar is one rectangle of a plot, with its title.
type bar struct {
	X, Y, Width, Height float64
	Title               string
}

// tick is a mark of an axis.
type tick struct {
	At        float64 // in percent of the axis
	Text, Day string  // Day, below Text, is where it changes
}

// chart returns the plots of the page.
func (r *Report) chart() *chart {
	periods, each := r.periods(maxBars)
	c := &chart{Period: each, Ticks: ticks(periods, each)}
	most, worst := int64(0), int64(0)
	for _, p := range periods {
		most = max(most, p.requests)
		for _, n := range p.denied {
			worst = max(worst, n)
		}
	}
	add := func(title string, most int64, denied bool, of func(period) int64) {
		scale, top := scaleTo(most)
		p := plot{Title: title, Denied: denied, Scale: scale}
		p.draw(periods, each, of, float64(top))
		c.Plots = append(c.Plots, p)
		for _, t := range p.Scale {
			c.Gutter = max(c.Gutter, len(t.Text))
		}
	}
	add("Requests, by "+each, most, false, func(p period) int64 { return p.requests })
	for i, o := range r.Outcomes {
		title := "Denied by " + o.Label
		if o.Denied == 0 {
			title += ": none"
		}
		add(title, worst, true, func(p period) int64 { return p.denied[i] })
	}
	return c
}

// draw sets the bars, of which top is as high as the plot, and the description.
func (p *plot) draw(periods []period, each string, of func(period) int64, top float64) {
	width := plotWidth / float64(len(periods))
	gap, worst := width/5, 0
	for i, period := range periods {
		n := of(period)
		if n > of(periods[worst]) {
			worst = i
		}
		if n == 0 {
			continue
		}
		title := fmt.Sprintf("%s: %s", period.name, show.Some(n, "request"))
		if p.Denied {
			title = fmt.Sprintf("%s: %s of %s denied", period.name, show.Count(n), show.Some(period.requests, "request"))
		}
		height := plotHeight * float64(n) / top
		p.Bars = append(p.Bars, bar{float64(i)*width + gap/2, plotHeight - height, width - gap, height, title})
	}
	switch w := periods[worst]; {
	case of(w) == 0:
		p.Description = p.Title + "."
	case p.Denied:
		p.Description = fmt.Sprintf("%s, by %s. Most were denied in the %s of %s: %s of %s.", p.Title, each, each, w.name, show.Count(of(w)), show.Count(w.requests))
	default:
		p.Description = fmt.Sprintf("%s. Most came in the %s of %s: %s.", p.Title, each, w.name, show.Count(of(w)))
	}
}

// scaleTo returns the marks of a y-axis from 0 to at least most, and the last
// one: up to five, at round numbers.
func scaleTo(most int64) (list []tick, top int64) {
	step := int64(1)
	for base := int64(1); most > 4*step; base *= 10 {
		for _, digit := range []int64{1, 2, 5} {
			if step = base * digit; most <= 4*step {
				break
			}
		}
	}
	top = max(1, (most+step-1)/step) * step
	for n := int64(0); n <= top; n += step {
		list = append(list, tick{At: 100 * float64(n) / float64(top), Text: show.Count(n)})
	}
	return list, top
}

// steps are how many periods can be from one mark of the time axis to the next,
// so that marks stand at times that people name.
var steps = map[string][]int{
	"hour": {1, 2, 3, 4, 6, 12, 24, 48}, "day": {1, 2, 7, 14, 28, 56}, "month": {1, 2, 3, 6, 12, 24, 48}, "year": {1, 2, 5, 10, 20, 50, 100, 1000},
}

// maxTicks is how many marks of the time axis have a place on a phone.
const maxTicks = 7

// ticks returns the marks of the time axis. Each is where its period begins.
func ticks(periods []period, each string) (list []tick) {
	of := make([]time.Time, len(periods)) // as the zone's clocks show it
	for i, p := range periods {
		of[i], _ = time.Parse("2006-01-02 15:04"[:len(p.name)], p.name)
	}
	for _, step := range steps[each] {
		list = list[:0]
		day := ""
		for i, at := range of {
			text, sub, number := named(at, each)
			if number%step != 0 && len(periods) > 1 {
				continue
			}
			t := tick{At: 100 * float64(i) / float64(len(periods)), Text: text}
			if sub != day {
				t.Day, day = sub, sub
			}
			list = append(list, t)
		}
		if len(list) <= maxTicks {
			break
		}
	}
	return list
}

// named returns what a mark is called, what stands below it, and its number
// among all such periods.
func named(at time.Time, each string) (text, below string, number int) {
	switch each {
	case "hour":
		return at.Format("15:04"), at.Format("2 Jan"), int(math.Floor(float64(at.Unix()) / 3600))
	case "day":
		return at.Format("2 Jan"), at.Format("2006"), int(math.Floor(float64(at.Unix()) / 86400))
	case "month":
		return at.Format("Jan"), at.Format("2006"), at.Year()*12 + int(at.Month()) - 1
	}
	return at.Format("2006"), "", at.Year()
}

// Down is where a mark of a y-axis is in a plot, from its top.
func (t tick) Down() float64 { return plotHeight - t.At*plotHeight/100 }
