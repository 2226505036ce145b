package report

import "fmt"

// Target is something the library promises itself.
type Target struct {
	What string
	Aim  string
	Got  string
	Met  bool
}

// AtLeast is met by a ratio to base of bound or more.
func AtLeast(what, base string, ratio, bound float64) Target {
	return Target{what, fmt.Sprintf("≥ %g × %s", bound, base), Times(ratio), ratio >= bound}
}

// AtMost is met by a ratio to base of bound or less.
func AtMost(what, base string, ratio, bound float64) Target {
	return Target{what, fmt.Sprintf("≤ %g × %s", bound, base), Times(ratio), ratio <= bound}
}

// UpTo is met by a value of bound or less.
func UpTo(what, unit string, value, bound float64) Target {
	return Target{what, fmt.Sprintf("≤ %g %s", bound, unit), Number(value) + " " + unit, value <= bound}
}

// None is met by a value of 0, give or take what the process does in the background.
func None(what, unit string, value float64) Target {
	return Target{what, "0 " + unit, three(value) + " " + unit, value < 0.005}
}

// Targets is their table.
func Targets(all []Target) string {
	rows := [][]string{{"what", "target", "measured", "met"}}
	for _, t := range all {
		met := "**no**"
		if t.Met {
			met = "yes"
		}
		rows = append(rows, []string{t.What, t.Aim, t.Got, met})
	}
	return Table(rows)
}
