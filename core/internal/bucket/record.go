package bucket

import (
	"math"
	"math/bits"
)

const (
	// MaxUsed is the most units that are used at once: twice the largest
	// bucket. What is beyond a full bucket is a debt.
	MaxUsed = 1 << 51
	// Forever is the longest wait, in µs: 71 years.
	Forever = 1 << 51
	// Latest is the last instant that a clock may show, in µs since 1970: in
	// 2112. Instants that lie the longest wait ahead of it stay below 2^53.
	Latest = 1 << 52
)

// Record is what is stored of one limit. A limit without one is full.
type Record struct {
	Tag            uint32
	Held           int64 // tokens that holds have
	Unit, Capacity int64 // those of the limit that wrote the record
	Used           int64 // units taken and not refilled yet; more than a full bucket is a debt
	At             int64 // the last step that has counted, in µs since 1970
	Cut            int64 // units used, but forgiven because the capacity has become smaller
}

// convert makes r a record of another definition of its limit. What was used
// stays used. A smaller capacity makes no debt of it: what it can't take is
// cut, and is used again when the capacity grows.
func (r *Record) convert(l *Rate) {
	if r.Unit != l.Unit {
		r.Used, r.Cut = rescaled(r.Used, r.Unit, l.Unit), rescaled(r.Cut, r.Unit, l.Unit)
	}
	before := product(r.Capacity, l.Unit) // which may be far more than a bucket can have
	r.Unit, r.Capacity = l.Unit, l.Capacity
	if l.Full > before {
		again := min(r.Cut, l.Full-before, MaxUsed-r.Used)
		r.Used, r.Cut = r.Used+again, r.Cut-again
		return
	}
	debt := max(0, r.Used-before)
	over := max(0, r.Used-debt-l.Full)
	r.Used, r.Cut = r.Used-over, r.Cut+over
}

// rescaled is units of one size in another, rounded up as a double can: Lua has
// nothing better. The error is less than a unit in 2^51.
func rescaled(units, from, to int64) int64 {
	return int64(min(MaxUsed, math.Ceil(float64(units)/float64(from)*float64(to))))
}

// refill counts the steps in (At, clock]. What they bring beyond a full bucket
// pays the cut; with that paid too, the next step begins at clock.
func (r *Record) refill(clock, gain, step int64) {
	if clock > r.At && r.Used+r.Cut > 0 {
		steps := clock - r.At
		if step > 1 { // usually it is 1, and the division costs as much as the rest
			steps /= step
		}
		r.At += steps * step
		r.give(product(steps, gain))
	}
	if r.Used+r.Cut == 0 {
		r.At = max(r.At, clock) // At is behind the clock where another definition has counted until then
	}
}

// give puts units back. They pay what was used, and then what was cut.
func (r *Record) give(units int64) {
	paid := min(units, r.Used)
	r.Used, r.Cut = r.Used-paid, max(0, r.Cut-(units-paid))
}

// product is a × b, at most what no bucket can use up.
func product(a, b int64) int64 {
	if high, low := bits.Mul64(uint64(a), uint64(b)); high == 0 && low <= 4*MaxUsed {
		return int64(low)
	}
	return 4 * MaxUsed
}

// bring counts what has come in until now. starts are those of the periods of a
// calendar. It reports whether the clock was set back: then the record must be
// stored, or it would not refill until the clock is there again.
//
// Another definition may leave an At between steps. It is rounded up, so that
// no time counts twice, and may then be behind now.
func (r *Record) bring(now int64, l *Rate, starts []int64) (setBack bool) {
	stored := r.At
	at := min(stored, now)
	switch l.Steps {
	case FromUse:
		r.At = at
		r.refill(now, l.Gain, l.Step)
	case OnClock:
		r.At = ceilTo(at, l.Step)
		r.refill(floorTo(now, l.Step), l.Gain, l.Step)
	case OnCalendar: // by the numbers of periods
		k := index(starts, l.Step, at)
		if k > 0 && start(starts, l.Step, k) < at { // in front of them too few count already
			k++
		}
		r.At = k
		r.refill(index(starts, l.Step, now), l.Gain, 1)
		r.At = start(starts, l.Step, r.At)
	}
	return stored > now
}

// wait returns in how many µs the bucket gains so many units.
func (r *Record) wait(units, now int64, l *Rate, starts []int64) int64 {
	if units <= 0 {
		return 0
	}
	if l.Gain == 0 {
		return Forever
	}
	steps := units
	if l.Gain > 1 {
		steps = (units + l.Gain - 1) / l.Gain
	}
	if l.Steps == OnCalendar && steps <= 2*Forever/l.Step {
		k := index(starts, l.Step, r.At) + steps
		if units > 2*(l.Full+l.Gain) { // some will lie in front of the known starts then, and fewer count
			k += 2 + steps/8
		}
		return min(Forever, start(starts, l.Step, k)-now)
	}
	return min(Forever, r.At-now+product(steps, l.Step))
}

// Left returns what the i-th limit of a plain request has left, by its record
// as it was stored now. granted says whether the request was.
func (r *Record) Left(request *Request, i int, granted bool, now int64) Left {
	l := &request.Set.Rates[i]
	if l.Steps == OnClock {
		r.At = ceilTo(r.At, l.Step)
	}
	left := Left{Units: l.Full - r.Used, Full: r.wait(r.Used+r.Cut, now, l, nil)}
	if want, asked := request.awaited(i, granted); asked && left.Units < want {
		if left.Ready = Forever; want <= l.Full {
			left.Ready = r.wait(want-left.Units, now, l, nil)
		}
	}
	return left
}

// stepsIn returns how many steps of a limit that was brought to now are in
// (from, to].
func (r *Record) stepsIn(from, to int64, l *Rate, starts []int64) int64 {
	if l.Steps == OnCalendar {
		return max(0, index(starts, l.Step, to)-index(starts, l.Step, from))
	}
	return max(0, (floorTo(to-r.At, l.Step)-floorTo(from-r.At, l.Step))/l.Step)
}

// index returns the number of the period in which an instant lies. In front of
// the starts that are known and behind them, periods are step long.
func index(starts []int64, step, instant int64) int64 {
	k := len(starts)
	for k > 1 && starts[k-1] > instant {
		k--
	}
	if k < len(starts) && instant >= starts[0] {
		return int64(k)
	}
	return int64(k) + floorTo(instant-starts[k-1], step)/step
}

// start returns the instant at which a period begins.
func start(starts []int64, step, k int64) int64 {
	known := max(1, min(k, int64(len(starts))))
	return starts[known-1] + (k-known)*step
}

// ceilTo rounds t up to a multiple of step.
func ceilTo(t, step int64) int64 { return -floorTo(-t, step) }

// floorTo rounds t down to a multiple of step; t may be negative.
func floorTo(t, step int64) int64 {
	rest := t % step
	if rest < 0 {
		rest += step
	}
	return t - rest
}
