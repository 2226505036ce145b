// Package report writes what was measured: Markdown tables and an SVG plot.
package report

import (
	"fmt"
	"math"
	"strings"
)

// Table is a Markdown table: the first row is its head. All columns but the first are numbers.
func Table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "| ---%s |\n", strings.Repeat(" | ---:", len(row)-1))
		}
	}
	return b.String()
}

// Number writes v with three significant digits, thousands as k and millions as M.
func Number(v float64) string {
	switch abs := math.Abs(v); {
	case abs >= 1e6:
		return three(v/1e6) + "M"
	case abs >= 1e4:
		return three(v/1e3) + "k"
	default:
		return three(v)
	}
}

// three writes v with about three significant digits.
func three(v float64) string {
	switch abs := math.Abs(v); {
	case abs == 0:
		return "0"
	case abs >= 100:
		return fmt.Sprintf("%.0f", v)
	case abs >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// Times writes a ratio.
func Times(ratio float64) string {
	if ratio < 0.1 {
		return fmt.Sprintf("×%.1g", ratio)
	}
	return "×" + three(ratio)
}
