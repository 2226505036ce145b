package measure

import "fmt"

// TakeTurns measures each contender once in every round. Each round begins with another contender than the one before, so that
// none always has the same neighbour before it.
func TakeTurns(names []string, rounds int, round func(contender int) (map[Metric]float64, error)) ([]Series, error) {
	series := make([]Series, len(names))
	for n := range rounds {
		for turn := range names {
			i := (n + turn) % len(names)
			m, err := round(i)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", names[i], n+1, err)
			}
			series[i].Name = names[i]
			series[i].rounds = append(series[i].rounds, m)
		}
	}
	return series, nil
}
