package calculator

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/accesslog"
)

// traffic is when requests come, in order.
type traffic struct {
	from  time.Time
	step  time.Duration
	steps int
	at    []time.Time
	times bool // it was given as times, not as counts
}

const (
	// maxRequests bounds what is drawn at once.
	maxRequests = 200_000
	// maxSteps bounds the columns of the picture.
	maxSteps = 1_000
	// maxCount is below every time that is given as seconds since 1970.
	maxCount = 1_000_000
	// columns is how many columns the picture of times has, at most.
	columns = 120
)

// beginning is when counts begin: a Monday at midnight, so limits on the clock
// and on the calendar begin anew.
var beginning = time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)

// readTraffic reads counts or times.
func (a *asked) readTraffic(text string, step time.Duration) {
	counts, isCounts := readCounts(text)
	var err error
	switch {
	case isCounts && len(counts) == 0:
		err = errors.New("draw some requests, or write how many come in each step, such as 0 0 30 5")
	case isCounts:
		a.traffic, err = ofCounts(counts, step)
	default:
		line := 0
		if a.traffic, line, err = ofTimes(text); err != nil {
			a.report("traffic", line, err)
			return
		}
	}
	if err != nil {
		a.report("traffic", 0, err)
	}
}

// readCounts reads whole numbers, and reports whether that is all there is.
func readCounts(text string) (counts []int, all bool) {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,;\t\r\n", r) })
	for _, word := range words {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || n >= maxCount {
			return nil, false
		}
		counts = append(counts, n)
	}
	return counts, true
}

// ofCounts spreads the requests of each step evenly over it.
func ofCounts(counts []int, step time.Duration) (traffic, error) {
	t := traffic{from: beginning, step: step, steps: len(counts)}
	sum := 0
	for _, n := range counts {
		sum += n
	}
	switch {
	case len(counts) > maxSteps:
		return t, fmt.Errorf("%d counts are too many: write at most %d, or make the step longer", len(counts), maxSteps)
	case sum > maxRequests:
		return t, fmt.Errorf("%d requests are too many to draw: write at most %d", sum, maxRequests)
	case step > maxSpan/time.Duration(len(counts)):
		return t, fmt.Errorf("%d steps of %v are too long: the picture has at most %d days", len(counts), step, maxSpan/day)
	}
	for i, n := range counts {
		begin := beginning.Add(time.Duration(i) * step)
		for k := range n {
			t.at = append(t.at, begin.Add(time.Duration(float64(step)*float64(k)/float64(n))))
		}
	}
	return t, nil
}

const (
	day     = 24 * time.Hour
	maxSpan = 20_000 * day // limiters decide until 2112
)

// ofTimes reads one time from each line.
func ofTimes(text string) (t traffic, line int, err error) {
	t.times = true
	for i, one := range strings.Split(text, "\n") {
		one = strings.Trim(one, " \t\r,;[]\"")
		if one == "" {
			continue
		}
		micros, err := accesslog.ParseTime(one, time.UTC)
		if err != nil {
			if i == 0 || len(t.at) == 0 {
				err = fmt.Errorf("%w; or write counts alone, whole numbers below %d", err, maxCount)
			}
			return t, i + 1, err
		}
		if t.at = append(t.at, time.UnixMicro(micros)); len(t.at) > maxRequests {
			return t, i + 1, fmt.Errorf("there are too many times to draw: write at most %d", maxRequests)
		}
	}
	slices.SortStableFunc(t.at, time.Time.Compare)
	t.frame()
	return t, 0, nil
}

// lengths are how long columns are that people can name.
var lengths = []time.Duration{
	10 * time.Millisecond, 100 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
	30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
	2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day, 14 * day, 28 * day,
}

// frame chooses the columns of times.
func (t *traffic) frame() {
	first, last := t.at[0], t.at[len(t.at)-1]
	step := lengths[len(lengths)-1]
	for _, length := range lengths {
		if step = length; last.Sub(first.Truncate(length)) < columns*length {
			break
		}
	}
	for last.Sub(first.Truncate(step)) >= columns*step {
		step *= 2
	}
	t.step, t.from = step, first.Truncate(step)
	t.steps = int(last.Sub(t.from)/step) + 1
}

// column is the step that an instant is in.
func (t *traffic) column(at time.Time) int { return min(t.steps-1, int(at.Sub(t.from)/t.step)) }
