package calculator_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/calculator"
	"github.com/tokenbucket-go/ratelimit/core"
)

func ask(limits, traffic string) calculator.Question {
	return calculator.Question{Limits: limits, Traffic: traffic, Step: "1s", Cost: "1", Window: "1 min"}
}

// A bucket of whole tokens per second, in integers, is what the picture shows.
func TestPictureIsThatOfABucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, burst := rapid.Int64Range(1, 9).Draw(t, "rate"), rapid.Int64Range(1, 30).Draw(t, "burst")
		cost := rapid.Int64Range(1, 3).Draw(t, "cost")
		counts := rapid.SliceOfN(rapid.Int64Range(0, 40), 1, 50).Draw(t, "counts")
		q := ask(fmt.Sprintf("%d/s burst %d", rate, burst), strings.Trim(fmt.Sprint(counts), "[]"))
		q.Cost = fmt.Sprint(cost)
		a := calculator.Compute(q)
		require.Empty(t, a.Mistakes)
		const unit = int64(time.Second) // tokens in 1/unit; each ns brings rate of them
		tokens, last := burst*unit, int64(0)
		for second, n := range counts {
			denied := int64(0)
			for k := range n {
				at := int64(second)*unit + int64(float64(unit)*float64(k)/float64(n))
				at -= at % 1000 // the library counts microseconds
				tokens, last = min(burst*unit, tokens+(at-last)*rate), at
				if tokens < cost*unit {
					denied++
				} else {
					tokens -= cost * unit
				}
			}
			assert.Equal(t, n, a.Picture.Counts[second])
			assert.Equal(t, denied, a.Picture.Denied[second], "second %d", second)
			end := int64(second+1) * unit
			full := min(burst*unit, tokens+(end-last)*rate) / unit
			parts := len(a.Picture.Left[0]) / len(counts)
			assert.LessOrEqual(t, a.Picture.Left[0][(second+1)*parts-1], full, "the least of the last part is at most what is left at its end")
			if n == 0 {
				assert.GreaterOrEqual(t, a.Picture.Left[0][(second+1)*parts-1], max(0, full-rate), "nothing was taken")
			}
		}
	})
}

// The busiest window of a traffic is the one that looking at all windows finds,
// and never above the worst one.
func TestBusiestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]string{"2/s burst 5", "20/10s stepped", "9/5s aligned", "1/s burst 40\n30/10s stepped"}).Draw(t, "limit")
		var times []string
		var at []int64
		now := int64(1_772_409_600_000)
		for range rapid.IntRange(1, 80).Draw(t, "requests") {
			now += rapid.Int64Range(0, 900).Draw(t, "ms")
			at, times = append(at, now), append(times, fmt.Sprintf("%d.%03d", now/1000, now%1000))
		}
		q := ask(limit, strings.Join(times, "\n"))
		window := rapid.Int64Range(1, 20_000).Draw(t, "window")
		q.Window = fmt.Sprintf("%dms", window)
		a := calculator.Compute(q)
		require.Empty(t, a.Mistakes)
		clock := time.UnixMilli(at[0])
		var limits []core.Limit
		for _, text := range strings.Split(limit, "\n") {
			limits = append(limits, core.Must(core.ParseLimit(text)))
		}
		l := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(func() time.Time { return clock })), core.Policy{Name: "x", Limits: limits}))
		var allowed []int64
		for _, ms := range at {
			clock = time.UnixMilli(ms)
			if core.Must(l.Allow(context.Background(), "k")).Allowed {
				allowed = append(allowed, ms)
			}
		}
		most := 0
		for _, from := range allowed {
			n := 0
			for _, ms := range allowed {
				if ms >= from && ms <= from+window {
					n++
				}
			}
			most = max(most, n)
		}
		assert.EqualValues(t, most, a.Window.Seen)
		assert.LessOrEqual(t, a.Window.Seen, a.Window.Most)
		assert.EqualValues(t, len(allowed), a.Picture.Total-a.Picture.Refused)
	})
}

// Mistakes are the library's messages, each at its field and line.
func TestMistakesNameTheirPlace(t *testing.T) {
	many := strings.Repeat("1 ", 1001)
	for _, c := range []struct {
		change func(*calculator.Question)
		field  string
		line   int
		want   string
	}{
		{func(q *calculator.Question) { q.Limits = "60/min\n\nten/min" }, "limits", 3, `"ten" must be a number such as 100, 0.5 or 1_000 (RL103)`},
		{func(q *calculator.Question) { q.Limits = "60/dya" }, "limits", 1, `"dya" must be a time such as s, min`},
		{func(q *calculator.Question) { q.Limits = " \n" }, "limits", 0, "write a limit, such as 60/min burst 20"},
		{func(q *calculator.Question) { q.Limits = "60/min\nx10" }, "limits", 2, "10 multiplies a limit, so it is for overrides"},
		{func(q *calculator.Question) { q.Limits = "\n1/s name a\n2/s name a" }, "limits", 3, `"a"`},
		{func(q *calculator.Question) { q.Step = "1" }, "step", 0, "1"},
		{func(q *calculator.Question) { q.Step = "" }, "step", 0, `"" must be a time`},
		{func(q *calculator.Question) { q.Step = "min burst 7" }, "step", 0, "must be a time alone"},
		{func(q *calculator.Question) { q.Step = "10000 days" }, "traffic", 0, "3 steps of 240000h0m0s are too long"},
		{func(q *calculator.Question) { q.Window = "soon" }, "window", 0, `"soon" must be a time`},
		{func(q *calculator.Question) { q.Step = "day aligned" }, "step", 0, `"day aligned" must be a time alone`},
		{func(q *calculator.Question) { q.Window = "1s stepped" }, "window", 0, `"1s stepped" must be a time alone`},
		{func(q *calculator.Question) { q.Cost = "0" }, "cost", 0, "0 must be from 1 to 999999999999999 tokens (RL102)"},
		{func(q *calculator.Question) { q.Cost = "1.5" }, "cost", 0, `"1.5" must be a whole number of tokens`},
		{func(q *calculator.Question) { q.Cost = "1,5" }, "cost", 0, `"1,5" must be written without commas: 1000 or 1_000`},
		{func(q *calculator.Question) { q.Cost = "_" }, "cost", 0, `"_" must be a whole number such as 100 or 1_000`},
		{func(q *calculator.Question) { q.Cost = "5 name x" }, "cost", 0, `"5 name x" must be a whole number alone`},
		{func(q *calculator.Question) { q.Traffic = "" }, "traffic", 0, "draw some requests"},
		{func(q *calculator.Question) { q.Traffic = "2026-03-02T10:00:00Z\n\nyesterday" }, "traffic", 3, `"yesterday": the time can't be read`},
		{func(q *calculator.Question) { q.Traffic = "1 2 three" }, "traffic", 1, `"1 2 three": the time can't be read`},
		{func(q *calculator.Question) { q.Traffic = "1 2 three" }, "traffic", 1, `or write counts alone, whole numbers below 1000000, which "three" is not`},
		{func(q *calculator.Question) { q.Traffic = "1_000" }, "traffic", 1, `"1_000": seconds since 1970 must be at least 1000000; or write counts alone`},
		{func(q *calculator.Question) { q.Traffic = "5\n2026-03-02T10:00:00Z" }, "traffic", 1, `"5": seconds since 1970 must be at least 1000000; or write counts alone, whole numbers below 1000000, which "2026-03-02T10:00:00Z" is not`},
		{func(q *calculator.Question) { q.Traffic = many }, "traffic", 0, "1001 counts are too many"},
		{func(q *calculator.Question) { q.Traffic = "999999" }, "traffic", 0, "999999 requests are too many to draw"},
		{func(q *calculator.Question) { q.Traffic = strings.Repeat("1772409600\n", 200_001) }, "traffic", 200_001, "too many times"},
	} {
		q := ask("60/min burst 20", "1 2 3")
		c.change(&q)
		a := calculator.Compute(q)
		require.NotEmpty(t, a.Mistakes, "%+v", q)
		m := a.Mistakes[0]
		assert.Equal(t, c.line, m.Line, m.Text)
		assert.Equal(t, c.field, m.Field, m.Text)
		assert.Contains(t, m.Text, c.want)
		assert.NotContains(t, m.Text, "Limit.", "fields of Go are nothing that readers of a page have written")
		assert.Nil(t, a.Picture)
	}
}

// Times of logs and counts are told apart, and a column of times has a round
// length.
func TestTimesBecomeColumns(t *testing.T) {
	at := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	var rfc, logged, unix []string
	for i := range 300 {
		one := at.Add(time.Duration(i) * 37 * time.Second)
		rfc, unix = append(rfc, one.Format(time.RFC3339)), append(unix, strconv.FormatInt(one.Unix(), 10))
		logged = append(logged, one.Format("[02/Jan/2006:15:04:05 -0700]"))
	}
	slices.Reverse(logged) // the order does not matter
	var first calculator.Answer
	for i, text := range [][]string{rfc, logged, unix} {
		a := calculator.Compute(ask("60/h burst 50", strings.Join(text, "\n")+"\n"))
		require.Empty(t, a.Mistakes)
		if i == 0 {
			first = a
		}
		assert.Equal(t, first.Picture, a.Picture)
		assert.Equal(t, "2 min", a.Picture.StepText)
		assert.EqualValues(t, 300, a.Picture.Total)
		assert.LessOrEqual(t, len(a.Picture.Counts), 120)
	}
}

// What is written in numbers reads as a sentence, and numbers may be a list of
// JSON.
func TestSaysInWords(t *testing.T) {
	for traffic, want := range map[string]string{
		"0 0": "No requests yet.", "1": "The request is allowed.", "[2]": "All 2 requests are allowed.", "[1, 2]": "Of 3 requests, 2 are allowed and 1 denied.",
	} {
		assert.Equal(t, want, calculator.Compute(ask("2/day", traffic)).Picture.Says)
	}
	assert.Equal(t, "Of 3 requests, 1 is allowed and 2 denied.", calculator.Compute(ask("1/day", "3")).Picture.Says)
	q := ask("1/day", "1")
	q.Cost = "2"
	assert.Equal(t, "The request is denied.", calculator.Compute(q).Picture.Says)
}

// A picture of all times at which limiters decide has columns outside of them.
func TestWidestPicture(t *testing.T) {
	for _, from := range []int64{1_000_000, 900_000_000} {
		a := calculator.Compute(ask("1/36500days", fmt.Sprintf("%d\n4499999999", from)))
		require.Empty(t, a.Mistakes)
		assert.Equal(t, "All 2 requests are allowed.", a.Picture.Says, "there are more than 36,500 days between them")
	}
}

// The worst window is never below what a limit admits, nor a number that no
// traffic reaches because a request takes more than there can be.
func TestWorstWindowAtTheEdges(t *testing.T) {
	for _, c := range []struct{ limits, cost, want string }{
		{"60/min burst 20", "20", "At most 4 requests in any 1 min."},
		{"60/min burst 20", "21", "At most 0 requests in any 1 min."},
		{"60/min burst 20\n5 at once", "2", "At most 40 requests in any 1 min."},
		{"5 at once", "6", "At most 0 requests in any 1 min."},
		{"5 at once", "1", "Slots bound how many requests are at work at once, and not how many there are in 1 min."},
		{"999999999999999/us", "1", "More than 9,223,372,036,854,775,807 requests in any 1 min."},
		{"999999999999999/us\n5 at once", "5", "More than 1,844,674,407,370,955,161 requests in any 1 min."},
	} {
		q := ask(c.limits, "1")
		q.Cost = c.cost
		a := calculator.Compute(q)
		require.Empty(t, a.Mistakes)
		assert.Equal(t, c.want, a.Window.Says, "%s, cost %s", c.limits, c.cost)
	}
}

// What a field has never makes the program fail or hang.
func FuzzCompute(f *testing.F) {
	f.Add("60/min burst 20", "1 2 30", "1s", "1", "1 min")
	f.Add("5 at once hold 1s\n100 tokens/h", "2026-03-02T10:00:00Z\n2112-01-01", "month", "7", "1h30m")
	f.Add("1/month in Europe/Berlin from 2025-10-31", "0.1\n0.2\n5e9", "1ns", "1_000", "9999999h")
	f.Add("1e6/us", "999999", "100 years", "999999999", "1 years")
	f.Fuzz(func(t *testing.T, limits, traffic, step, cost, window string) {
		a := calculator.Compute(calculator.Question{Limits: limits, Traffic: traffic, Step: step, Cost: cost, Window: window})
		if (a.Picture == nil) == (len(a.Mistakes) == 0) {
			t.Errorf("%d mistakes, and a picture: %v", len(a.Mistakes), a.Picture != nil)
		}
	})
}
