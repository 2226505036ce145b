package bucket

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// second is a second in µs.
const second = 1_000_000

// stepped returns the rate of a limit that refills in steps.
func stepped(capacity int64, rate float64, every time.Duration) Rate {
	return NewRate(Spec{Capacity: capacity, RefillRate: rate, RefillInterval: every, Mode: Stepped}, 1)
}

// What the examples in this package's comments say is so.
func TestExamplesInComments(t *testing.T) {
	t.Run("page", func(t *testing.T) {
		r := stepped(100, 1, time.Second)
		f := r.stepping(Level{At: 40 * second})
		b := r.pageOf(f, []hold{{60 * second, 1, 10}, {64 * second, 2, 10}})
		assert.EqualValues(t, 16, b.deficit/r.Unit, "page: the deficit")
		for from, to := range map[int64]int64{50: 74, 75: 84} {
			assert.Equal(t, Level{to * r.Unit, 64 * second}, r.refillThroughPage(f, &b, Level{from * r.Unit, 40 * second}, 20, nil), "refillThroughPage: from %d", from)
		}
	})
	t.Run("level", func(t *testing.T) {
		r := stepped(10, 25, time.Minute)
		assert.EqualValues(t, -20, r.refill(Level{-30 * r.Unit, 0}, 0, 60*second).Units/r.Unit, "gainTo: the debt after a minute")
	})
	t.Run("keep", func(t *testing.T) {
		r := stepped(10, 1, 10*time.Second)
		assert.EqualValues(t, 140*second, r.outlast(100*second, 133*second), "outlast: the first step that is not before the end")
	})
	t.Run("holds", func(t *testing.T) {
		r := stepped(10, 1, time.Second)
		l := Level{2 * r.Unit, 0}
		h := &Holds{stepping: r.stepping(l)}
		h.add(&r, hold{60 * second, 1, 8}, 0)
		assert.EqualValues(t, 63*second, r.waitAround(h, l, 5*r.Unit, 0), "waitAround: 5 tokens")
	})
	t.Run("record", func(t *testing.T) {
		r := stepped(100, 10, time.Minute)
		s := Record{Rate: &r, At: 130 * second, Keep: 280 * second}
		assert.EqualValues(t, 100*second, r.Level(&s).At, "Level: the last step up to the write")
	})
	t.Run("change", func(t *testing.T) {
		const day = 24 * 3600 * second
		high, low := NewRate(Spec{Capacity: 100, RefillRate: 100, RefillInterval: 24 * time.Hour}, 1), NewRate(Spec{Capacity: 20, RefillRate: 20, RefillInterval: 24 * time.Hour}, 1)
		s := Record{Rate: &high, Units: 30 * high.Unit, Keep: day}
		l, c, same := low.levelAt(&s, 0)
		assert.False(t, same)
		assert.Equal(t, []int64{0, 50}, []int64{l.Units / low.Unit, int64(c.Tokens)}, "lowered: the level and what is cut")
		s = Record{Rate: &low, Units: l.Units, Keep: 4 * day, Cut: &c}
		l, c, _ = low.levelAt(&s, day/2)
		assert.Equal(t, []int64{10, 50}, []int64{l.Units / low.Unit, int64(c.Tokens)}, "half a day on")
		s = Record{Rate: &low, Units: l.Units - low.Unit, At: day / 2, Keep: 4 * day, Cut: &c}
		l, c, _ = high.levelAt(&s, day/2)
		assert.Equal(t, []int64{39, 0}, []int64{l.Units / high.Unit, int64(c.Tokens)}, "raised again")
	})
	t.Run("rate", func(t *testing.T) {
		r := NewRate(Spec{Capacity: 17, RefillRate: 17, RefillInterval: 30 * time.Second}, 1)
		assert.Equal(t, []int64{17, 30_000_000, 1}, []int64{r.Gain, r.Unit, r.Step}, "Rate: gain, unit and step")
	})
	t.Run("stepBack", func(t *testing.T) {
		for mode, next := range map[Mode]int64{Stepped: 100 * second, Aligned: 60 * second} {
			r := NewRate(Spec{Capacity: 10, RefillRate: 1, RefillInterval: time.Minute, Mode: mode}, 1)
			s := &stored{last: []Record{{Rate: &r, Units: 5 * r.Unit, At: 130 * second, Keep: 420 * second}}}
			s.stepBack(0, &r, 40*second)
			l := r.Level(&s.last[0])
			assert.EqualValues(t, 5, r.refill(l, 0, next-1).Units/r.Unit, "mode %d: no step before %d s", mode, next/second)
			assert.EqualValues(t, 6, r.refill(l, 0, next).Units/r.Unit, "mode %d: a step at %d s", mode, next/second)
		}
	})
}
