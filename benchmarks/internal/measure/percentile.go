package measure

import (
	"math"
	"slices"
)

// Percentiles returns, for each p of 0 to 100, the smallest of values that is not below p percent of them (the nearest
// rank). It sorts values. Without values all are 0.
func Percentiles(values []float64, ps ...float64) []float64 {
	slices.Sort(values)
	found := make([]float64, len(ps))
	for i, p := range ps {
		if n := len(values); n > 0 {
			rank := int(math.Ceil(p*float64(n)/100 - 1e-9)) // 99.9 is a little more than it should be
			found[i] = values[max(rank, 1)-1]
		}
	}
	return found
}
