package measure

import (
	"fmt"
	"slices"
)

// Median is the median of a metric over the rounds.
func (s Series) Median(m Metric) float64 {
	return median(s.all(m))
}

// Quartiles are the values that a quarter of the rounds is below, and above.
func (s Series) Quartiles(m Metric) (low, high float64) {
	found := Percentiles(s.all(m), 25, 75)
	return found[0], found[1]
}

// Added is the median over the rounds of what s takes more than base does.
func (s Series) Added(base Series, m Metric) float64 {
	a, b := s.all(m), base.all(m)
	for i := range a {
		a[i] -= b[i]
	}
	return median(a)
}

// AddedRatio is the median over the rounds of what s adds to base ÷ what other adds to it in the same round.
func (s Series) AddedRatio(other, base Series, m Metric) float64 {
	a, b, zero := s.all(m), other.all(m), base.all(m)
	for i := range a {
		a[i] = (a[i] - zero[i]) / (b[i] - zero[i])
	}
	return median(a)
}

// Ratio is the median over the rounds of s ÷ base in the same round.
func (s Series) Ratio(base Series, m Metric) float64 {
	a, b := s.all(m), base.all(m)
	for i := range a {
		a[i] /= b[i]
	}
	return median(a)
}

// Has reports whether m was measured.
func (s Series) Has(m Metric) bool {
	_, ok := s.rounds[0][m]
	return ok
}

func (s Series) all(m Metric) []float64 {
	values := make([]float64, len(s.rounds))
	for i, r := range s.rounds {
		values[i] = r[m]
	}
	return values
}

// Named is the series of a contender. A missing one is a mistake in a case.
func Named(all []Series, name string) Series {
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	panic(fmt.Sprintf("no contender %q", name))
}

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return 0
	}
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}
