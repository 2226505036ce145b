package bucket

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const second = 1_000_000 // µs

// A rate is exact: the example in the comment on Rate, and one of each kind.
func TestNewRate(t *testing.T) {
	for name, c := range map[string]struct {
		spec             Spec
		unit, gain, step int64
	}{
		"17 per 30 s":             {Spec{Capacity: 17, RefillRate: 17, RefillInterval: 30 * time.Second}, 30_000_000, 17, 1},
		"10 a second, fine units": {Spec{Capacity: 10, RefillRate: 10, RefillInterval: time.Second}, 2 * 100_000, 2, 1},
		"0.1 a step of a minute":  {Spec{Capacity: 5, RefillRate: 0.1, RefillInterval: time.Minute, Mode: Stepped}, 26214 * 10, 26214, 60 * second},
		"a step fills the bucket": {Spec{Capacity: 2, RefillRate: 7, RefillInterval: time.Second, Mode: Aligned}, 1 << 18, 2 << 18, second},
		"slots":                   {Spec{Capacity: 3, Mode: Concurrent, MaxHold: time.Second}, 1, 0, 1},
	} {
		r := NewRate(c.spec, 1)
		assert.Equal(t, []int64{c.unit, c.gain, c.step, c.spec.Capacity * c.unit}, []int64{r.Unit, r.Gain, r.Step, r.Full}, name)
	}
}

func TestRefillCountsWholeSteps(t *testing.T) {
	starts := []int64{100, 200, 230, 300} // in front of them and behind them, periods are 100 long
	for _, c := range []struct {
		rule       string
		steps      Steps
		step, now  int64
		used, cut  int64
		at         int64
		wantUsed   int64
		wantCut    int64
		wantAt     int64
		wantStored bool
	}{
		{"two steps of 1 µs", FromUse, 1, 12, 9, 0, 10, 5, 0, 12, false},
		{"a step that has begun does not count", FromUse, 10, 29, 9, 0, 10, 7, 0, 20, false},
		{"what fills the bucket pays the cut", FromUse, 10, 40, 3, 9, 10, 0, 6, 40, false},
		{"a full bucket begins its steps now", FromUse, 10, 29, 1, 1, 10, 0, 0, 29, false},
		{"steps on the clock", OnClock, 10, 39, 9, 0, 10, 5, 0, 30, false},
		{"a full one on the clock is as of the last step", OnClock, 10, 39, 2, 0, 10, 0, 0, 30, false},
		{"an At between steps of the clock is rounded up", OnClock, 10, 25, 9, 0, 13, 9, 0, 20, false},
		{"a clock that was set back", FromUse, 10, 7, 9, 0, 30, 9, 0, 7, true},
		{"a clock that was set back, on the clock", OnClock, 10, 17, 9, 0, 30, 9, 0, 20, true},
		{"a clock that was set back within a step", OnClock, 10, 17, 9, 0, 20, 9, 0, 20, true},
		{"three periods", OnCalendar, 100, 300, 9, 0, 100, 3, 0, 300, false},
		{"a period that has begun does not count", OnCalendar, 100, 229, 9, 0, 100, 7, 0, 200, false},
		{"an At in a period is rounded up", OnCalendar, 100, 231, 9, 0, 150, 7, 0, 230, false},
		{"periods in front of those that are known", OnCalendar, 100, 199, 9, 0, -100, 5, 0, 100, false},
		{"an At in front of them", OnCalendar, 100, 199, 9, 0, -50, 5, 0, 100, false},
		{"periods behind those that are known", OnCalendar, 100, 500, 9, 0, 300, 5, 0, 500, false},
		{"a full one on a calendar", OnCalendar, 100, 250, 1, 0, 100, 0, 0, 230, false},
	} {
		rate := &Rate{Steps: c.steps, Step: c.step, Gain: 2, Full: 10, Unit: 1, Capacity: 10}
		r := Record{Unit: 1, Capacity: 10, Used: c.used, Cut: c.cut, At: c.at}
		stored := r.bring(c.now, rate, starts)
		assert.Equal(t, []any{c.wantUsed, c.wantCut, c.wantAt, c.wantStored}, []any{r.Used, r.Cut, r.At, stored}, c.rule)
	}
}

func TestALimitThatChangesKeepsWhatWasUsed(t *testing.T) {
	for _, c := range []struct {
		rule      string
		before    Record
		unit      int64
		capacity  int64
		used, cut int64
	}{
		{"a larger capacity", Record{Unit: 1, Capacity: 10, Used: 4}, 1, 20, 4, 0},
		{"a smaller one", Record{Unit: 1, Capacity: 10, Used: 4}, 1, 5, 4, 0},
		{"a smaller one cuts what it can't take", Record{Unit: 1, Capacity: 10, Used: 9}, 1, 4, 4, 5},
		{"a larger one uses what was cut", Record{Unit: 1, Capacity: 4, Used: 4, Cut: 5}, 1, 7, 7, 2},
		{"but not more than that", Record{Unit: 1, Capacity: 4, Used: 1, Cut: 5}, 1, 20, 6, 0},
		{"a debt stays one", Record{Unit: 1, Capacity: 10, Used: 13}, 1, 4, 7, 6},
		{"another unit", Record{Unit: 10, Capacity: 10, Used: 25, Cut: 5}, 4, 10, 10, 2},
		{"another unit rounds up", Record{Unit: 10, Capacity: 10, Used: 21, Cut: 1}, 4, 10, 9, 1},
		{"no more than can be used", Record{Unit: 1, Capacity: 10, Used: 1 << 50}, 8, 10, MaxUsed, 0},
		{"and what was cut", Record{Unit: 1, Capacity: 10, Used: MaxUsed - 2, Cut: 5}, 1, 20, MaxUsed, 3},
	} {
		r := c.before
		r.convert(&Rate{Unit: c.unit, Capacity: c.capacity, Full: c.unit * c.capacity})
		assert.Equal(t, Record{Unit: c.unit, Capacity: c.capacity, Used: c.used, Cut: c.cut}, r, c.rule)
	}
}

func TestWaitIsUntilTheStepThatBringsEnough(t *testing.T) {
	starts := []int64{100, 200, 230, 300}
	for _, c := range []struct {
		rule       string
		steps      Steps
		gain, step int64
		at, units  int64
		want       int64 // from 210 on
	}{
		{"nothing", FromUse, 2, 1, 210, 0, 0},
		{"steps of 1 µs, rounded up", FromUse, 2, 1, 210, 5, 3},
		{"steps that began earlier", FromUse, 2, 40, 200, 3, 70},
		{"periods", OnCalendar, 2, 100, 200, 3, 90},
		{"periods behind those that are known", OnCalendar, 2, 100, 200, 7, 290},
		{"more periods than will be known", OnCalendar, 2, 100, 200, 48, 90 + 100*(24-2+2+3)},
		{"slots", FromUse, 0, 1, 210, 1, Forever},
		{"too long", FromUse, 1, 1 << 40, 210, 1 << 40, Forever},
	} {
		rate := &Rate{Steps: c.steps, Step: c.step, Gain: c.gain, Full: 20}
		var known []int64
		if c.steps == OnCalendar {
			known = starts
		}
		r := Record{At: c.at}
		assert.Equal(t, c.want, r.wait(c.units, 210, rate, known), c.rule)
	}
}

// A process sends the starts of as many periods as fill a bucket, and keeps
// them until another one begins.
func TestStartsOfPeriods(t *testing.T) {
	day := func(month time.Month, day int) int64 {
		return time.Date(2026, month, day, 0, 0, 0, 0, time.UTC).UnixMicro()
	}
	set := NewLimitSet([]Rate{
		NewRate(Spec{Capacity: 1, RefillRate: 1, RefillInterval: time.Second}, 1),
		NewRate(Spec{Capacity: 3, RefillRate: 3, RefillInterval: Month, Mode: Aligned, Location: time.UTC}, 2),
	})
	if set.Rates[1].Calendar == nil {
		t.Fatal("premise: a limit on a calendar")
	}
	first := set.Starts(day(time.March, 10))
	assert.Nil(t, first[0], "of a limit on no calendar")
	periods := first[1]
	assert.Contains(t, periods, set.Rates[1].Calendar.At(day(time.March, 10)).Start, "the period of now")
	assert.Len(t, periods, 4+1+3, "a bucket fills in one, and pays a debt of a full one in another; with two more each")
	end := set.Rates[1].Calendar.At(day(time.March, 10)).End
	assert.Same(t, &periods[0], &set.Starts(end - 1)[1][0], "they are kept within a period")
	assert.NotSame(t, &periods[0], &set.Starts(end)[1][0])
	assert.Nil(t, NewLimitSet(set.Rates[:1]).Starts(0), "no limit is on a calendar")
}

// A full bucket that another definition has counted until now gains nothing
// for the time since the last step of a coarser one.
func TestNoTimeCountsTwiceWhereAFullBucketChanges(t *testing.T) {
	fine := Rate{Unit: 1, Capacity: 100, Full: 100, Gain: 1, Step: 1}
	coarse := Rate{Steps: OnClock, Unit: 1, Capacity: 100, Full: 100, Gain: 1, Step: 1000}
	r := Record{Unit: 1, Capacity: 100, At: 1990}
	r.bring(1990, &coarse, nil)
	r.Used, r.At = 50, min(r.At, 1990)
	r.bring(1990, &fine, nil)
	assert.Equal(t, int64(50), r.Used)
}
