package measure

import "fmt"

// TakeTurns measures each contender once in every round, in the order of names.
func TakeTurns(names []string, rounds int, round func(contender int) (map[Metric]float64, error)) ([]Series, error) {
	series := make([]Series, len(names))
	for n := range rounds {
		for i, name := range names {
			m, err := round(i)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", name, n+1, err)
			}
			series[i].Name = name
			series[i].rounds = append(series[i].rounds, m)
		}
	}
	return series, nil
}
