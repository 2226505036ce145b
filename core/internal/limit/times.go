package limit

import (
	"math"
	"math/big"
	"strconv"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

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
	l.RefillRate = max(product(l.RefillRate, n), slowest*(1+1e-12)) // which a float64 may have rounded down
	rate := l.RefillRate
	for ten := 1e9; ten >= 1 && l.Mode != bucket.Continuous && !l.Spec().Exact(); ten /= 10 { // too many decimals for steps of this Capacity
		l.RefillRate = math.Ceil(rate*ten) / ten
	}
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
