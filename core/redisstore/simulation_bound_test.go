package redisstore_test

import (
	"math/big"
	"math/bits"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// The oracle's upper bound: within says how many tokens a window may have. It
// is exact, in integers and fractions.
//
// Example: 10 tokens, 10 a minute, Continuous. A window of 30 s has at most 10
// + 5 tokens. With Stepped one of 30 s may have 20, because a step may lie in
// it.

// limitRule is a limit as the oracle reads it, in integers: it gains num/den
// tokens every interval.
type limitRule struct {
	name     string
	capacity int64
	mode     core.Mode
	interval int64 // µs
	num, den int64
	unit     string
	calendar *simulatedCalendar // nil: none
}

// fills returns in which time a limit refills all that it can lack: its
// capacity, and debits. After that a store need no longer remember what it
// wrote, even if other limits of its name have not refilled.
func (x *limitRule) fills(debits int64) int64 {
	num, den := x.perStep()
	return int64(float64(x.capacity+debits)*float64(den)/float64(num)+2) * x.longestStep()
}

// sameSteps reports whether x and b refill at once at the same instants.
func (x *limitRule) sameSteps(b *limitRule) bool {
	return x.mode == b.mode && x.interval == b.interval && x.calendar == b.calendar
}

// counting returns the rules that count a unit.
func counting(rules []limitRule, unit string) (list []limitRule) {
	for _, x := range rules {
		if x.unit == unit {
			list = append(list, x)
		}
	}
	return list
}

// perStep returns how many tokens an interval adds. If they come at once, at
// most Capacity counts, as in MaxIn.
func (x *limitRule) perStep() (num, den int64) {
	if x.mode != core.Continuous && x.num > x.capacity*x.den {
		return x.capacity, 1
	}
	return x.num, x.den
}

// rulesOf returns the rules of a list of limits, with names as Limit.Name
// documents them.
func rulesOf(policy string, list []core.Limit) []limitRule {
	taken := make(map[string]bool)
	for _, l := range list {
		taken[l.Name] = true
	}
	var rules []limitRule
	for _, l := range list {
		num, den := fraction(l.RefillRate)
		x := limitRule{l.Name, l.Capacity, l.Mode, l.RefillInterval.Microseconds(), num, den, l.Unit, calendarOf(l)}
		if x.unit == "" {
			x.unit = core.Requests
		}
		if x.name == "" {
			x.name = policy
			if len(list) > 1 {
				x.name += "-" + simulatedIntervals[l.RefillInterval]
				if x.unit != core.Requests {
					x.name += "-" + x.unit
				}
			}
			for n, base := 2, x.name; taken[x.name]; n++ {
				x.name = base + "-" + string(rune('0'+n))
			}
			taken[x.name] = true
		}
		rules = append(rules, x)
	}
	return rules
}

// simulatedIntervals holds the intervals that simulations draw, as they appear
// in derived names.
var simulatedIntervals = map[time.Duration]string{
	100 * time.Millisecond: "100ms", time.Second: "1s", 10 * time.Second: "10s", time.Minute: "1m", time.Hour: "1h",
	24 * time.Hour: "24h", 333_333 * time.Microsecond: "333.333ms", 7 * time.Second: "7s",
	7 * 24 * time.Hour: "168h", core.Month: "month", 3 * core.Month: "3months", 12 * core.Month: "year",
}

// faster reports whether x refills faster than b in the long run.
func (x *limitRule) faster(b *limitRule) bool {
	return x.num*b.den*b.interval > b.num*x.den*x.interval
}

// inUse is the time in which a limit is in use under its name. It begins with
// the last write before the limit's first decision. It ends with the first
// write under another limit after its last decision, or with the last instant
// promised under it.
type inUse struct {
	rule       limitRule
	start, end int64 // effective µs
	due        int64
}

// stepBack is a step of the clock back.
type stepBack struct {
	at       int64 // effective µs
	from, to int64 // µs since 1970
}

const never = 1 << 62

// within reports whether the limits of a name may admit sum tokens from s to t,
// both included. They may admit a full bucket of the largest capacity and its
// refill in the meantime.
func (tl *timeline) within(sum, s, t int64) bool {
	var capacity int64
	var only *inUse
	several := false
	for i := range tl.uses {
		if u := &tl.uses[i]; u.start <= t && u.end >= s {
			capacity = max(capacity, u.rule.capacity)
			several = several || only != nil
			only = u
		}
	}
	need := sum - capacity
	switch {
	case need <= 0:
		return true
	case only == nil:
		return false
	case several:
		return covers(tl.terms(capacity, s, t), need)
	case only.rule.mode == core.Continuous:
		x := &only.rule
		return product(need, x.den*x.interval).lessEqual(product(x.num, t-s))
	}
	num, den := gain(&only.rule, capacity)
	return product(need, den).lessEqual(product(tl.steps(&only.rule, s, t), num))
}

// gain returns how many tokens a step adds, at most what the bucket has room
// for.
func gain(x *limitRule, capacity int64) (num, den int64) {
	if x.num > capacity*x.den {
		return capacity, 1
	}
	return x.num, x.den
}

// steps returns how often a limit that refills at once may have refilled after
// s and until t.
func (tl *timeline) steps(x *limitRule, s, t int64) int64 {
	if x.mode == core.Aligned && len(tl.backs()) == 0 {
		return x.step(t+tl.oracle.offset) - x.step(s+tl.oracle.offset)
	}
	steps := x.mostSteps(t - s)
	if x.mode == core.Aligned {
		for _, b := range tl.backs() {
			if s <= b.at && b.at <= t { // the clock passes the time in between twice
				steps += x.step(b.from) - x.step(b.to)
			}
		}
	}
	return steps
}

// term stands for times × num/den tokens.
type term struct{ times, num, den int64 }

// terms returns the refill from s to t under several limits of one name. A
// stretch of time counts once, at the rate of the fastest Continuous limit in
// use. The steps of Stepped and Aligned limits are added: once for limits with
// the same steps, as the fastest.
func (tl *timeline) terms(capacity, s, t int64) (terms []term) {
	marks := append(make([]int64, 0, 8), s, t)
	for _, u := range tl.uses {
		for _, at := range [...]int64{u.start, u.end} {
			if s < at && at < t {
				marks = append(marks, at)
			}
		}
	}
	slices.Sort(marks)
	for i, from := range marks[1:] {
		var fastest *limitRule
		for j := range tl.uses {
			u := &tl.uses[j]
			if u.rule.mode == core.Continuous && u.start <= marks[i] && u.end >= from && (fastest == nil || u.rule.faster(fastest)) {
				fastest = &u.rule
			}
		}
		if fastest != nil {
			terms = append(terms, term{from - marks[i], fastest.num, fastest.den * fastest.interval})
		}
	}
	for i := range tl.uses {
		if x := tl.uses[i].rule; x.mode != core.Continuous && !tl.seenBefore(i) {
			from, to := int64(never), int64(-never)
			for _, u := range tl.uses {
				if u.rule.sameSteps(&x) {
					from, to = min(from, u.start), max(to, u.end)
					if u.rule.faster(&x) {
						x = u.rule
					}
				}
			}
			if from, to = max(from, s), min(to, t); from <= to {
				num, den := gain(&x, capacity)
				terms = append(terms, term{tl.steps(&x, from, to), num, den})
			}
		}
	}
	return terms
}

// seenBefore reports whether a use before the i-th refills at the same
// instants.
func (tl *timeline) seenBefore(i int) bool {
	for _, u := range tl.uses[:i] {
		if u.rule.sameSteps(&tl.uses[i].rule) {
			return true
		}
	}
	return false
}

// covers reports whether terms add up to need. It computes sums near need
// exactly.
func covers(terms []term, need int64) bool {
	sum := 0.0
	for _, x := range terms {
		sum += float64(x.times) * float64(x.num) / float64(x.den)
	}
	if sum > 1.001*float64(need)+1 {
		return true
	}
	total := new(big.Rat)
	for _, x := range terms {
		part := big.NewRat(x.num, x.den)
		total.Add(total, part.Mul(part, whole(x.times)))
	}
	return total.Cmp(whole(need)) >= 0
}

// wide is the product of two non-negative numbers.
type wide struct{ high, low uint64 }

func product(a, b int64) (w wide) {
	w.high, w.low = bits.Mul64(uint64(a), uint64(b))
	return w
}

func (a wide) lessEqual(b wide) bool {
	return a.high < b.high || a.high == b.high && a.low <= b.low
}
