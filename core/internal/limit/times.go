package limit

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// leastTimes to mostTimes are the factors of an override.
const leastTimes, mostTimes = 0.001, 1_000_000

// Scale returns the limit of n times the tokens: its Capacity and its RefillRate, as far as a limit can have them. It is at least one token.
func (l Limit) Scale(n float64) Limit {
	most := int64(MaxCapacity)
	if l.Mode == bucket.Concurrent {
		most = maxSlots
	}
	capacity := product(float64(l.Capacity), n)
	if nearest := math.Round(capacity); math.Abs(capacity-nearest) < 1e-9*nearest { // a float64 can't hold most shares of 1/n
		capacity = nearest
	}
	l.Capacity = most
	if capacity < float64(most) {
		l.Capacity = max(1, int64(capacity))
	}
	if l.Mode == bucket.Concurrent {
		return l
	}
	// The Capacity may have been rounded up to 1, so keep the bucket filling within bucket.MaxFill.
	slowest := float64(l.Capacity) * (float64(l.RefillInterval) / float64(bucket.MaxFill))
	if l.OnCalendar() {
		slowest = max(slowest, float64(l.Capacity)/bucket.MaxPeriods)
	}
	l.RefillRate = max(product(l.RefillRate, n), slowest)
	return l
}

// product is x × n of the decimal fractions that x and n are written as: three times 0.1 is 0.3.
func product(x, n float64) float64 {
	var a, b big.Rat
	if _, ok := a.SetString(strconv.FormatFloat(x, 'g', -1, 64)); !ok {
		return x * n // it is no number
	}
	b.SetString(strconv.FormatFloat(n, 'g', -1, 64))
	f, _ := a.Mul(&a, &b).Float64()
	return f
}

// timesMistakes reports what is wrong with a factor.
func (l Limit) timesMistakes(wrong func(name string, value any, reason string)) {
	if !(l.Times >= leastTimes && l.Times <= mostTimes) { // NaN is in no range
		wrong("Times", l.Times, "must be from 0.001 to 1,000,000")
	}
	if l != (Limit{Name: l.Name, Times: l.Times}) {
		wrong("Times", l.Times, "stands with a Name alone: it multiplies a limit of the plan, and has no numbers of its own")
	}
}

// factor reads what the text of a factor begins with, such as x10. It reports whether s is one.
func (p *parser) factor(s string) bool {
	word, rest := cutWord(strings.Trim(s, space))
	number, ok := strings.CutPrefix(quantity.Lower(word), "x")
	if !ok {
		number, ok = strings.CutPrefix(word, "×")
	}
	if !ok || number == "" || number[0] < '0' || number[0] > '9' {
		return false
	}
	var reason string
	if p.limit.Times, reason = quantity.ParseNumber(number); reason == "" && p.limit.Times < leastTimes {
		p.limit.Times, reason = 1, "must be from 0.001 to 1,000,000"
	}
	if p.rest = rest; reason != "" {
		p.limit.Times = 1 // it is a factor
		p.wrong("Times", word, reason)
	}
	return true
}
