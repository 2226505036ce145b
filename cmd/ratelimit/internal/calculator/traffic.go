package calculator

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/accesslog"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
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
	// maxCount is above every count, and below every time in seconds since 1970.
	maxCount = 1_000_000
	// maxShown is how many bytes of what somebody typed a message shows.
	maxShown = 60
	// columns is how many columns the picture of times has, at most.
	columns = 120
)

// beginning is when counts begin: a Monday at midnight, so limits on the clock
// and on the calendar begin anew.
var beginning = time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)

// readTraffic reads counts or times.
func (a *asked) readTraffic(text string, step time.Duration) {
	counts, other := readCounts(text)
	line, err := 0, error(nil)
	switch {
	case other != "":
		a.traffic, line, err = ofTimes(text, other)
	case len(counts) == 0:
		err = errors.New("draw some requests, or write how many come in each step, such as 0 0 30 5")
	default:
		a.traffic, err = ofCounts(counts, step)
	}
	if err != nil {
		a.report("traffic", line, err)
	}
}

// readCounts reads whole numbers. Other is the first word that is none.
func readCounts(text string) (counts []int, other string) {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,;[]\t\r\n", r) })
	for _, word := range words {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || n >= maxCount {
			return nil, word
		}
		counts = append(counts, n)
	}
	return counts, ""
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
			t.at = append(t.at, begin.Add(time.Duration(float64(step)*float64(k)/float64(n))).Truncate(time.Microsecond)) // as limiters decide
		}
	}
	return t, nil
}

// earliest and latest are instants at which limiters decide.
var (
	earliest = time.Unix(0, 0)
	latest   = time.Unix(4_500_000_000, 0)
)

const (
	day     = 24 * time.Hour
	maxSpan = 20_000 * day // limiters decide until 2112
)

// ofTimes reads one time from each line. Other is a word that is no count.
func ofTimes(text, other string) (t traffic, line int, err error) {
	t.times = true
	for i, one := range strings.Split(text, "\n") {
		one = strings.Trim(one, " \t\r,;[]\"")
		if one == "" {
			continue
		}
		micros, err := accesslog.ParseTime(one, time.UTC)
		if err == nil && micros < maxCount*1_000_000 {
			err = fmt.Errorf("seconds since 1970 must be at least %d", maxCount)
		}
		if err != nil {
			if err = fmt.Errorf("%s: %w", show.Quoted(one, maxShown), err); len(t.at) == 0 {
				err = fmt.Errorf("%w; or write counts alone, whole numbers below %d, which %s is not", err, maxCount, show.Quoted(other, maxShown))
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
	if t.from.Before(earliest) {
		t.from = earliest
	}
	t.steps = int(last.Sub(t.from)/step) + 1
}

// column is the step that an instant is in.
func (t *traffic) column(at time.Time) int { return min(t.steps-1, int(at.Sub(t.from)/t.step)) }
