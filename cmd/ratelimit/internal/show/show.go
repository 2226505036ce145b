// Package show writes numbers, times and keys as people read them.
package show

import (
	"strconv"
	"time"
)

// Percent is the share of part in whole, with as many decimals as tell it from
// 0 and 100 %, but at most three.
func Percent(part, whole int64) string {
	if whole == 0 || part == 0 {
		return "0 %"
	}
	if part == whole {
		return "100 %"
	}
	share := 100 * float64(part) / float64(whole)
	for decimals := 1; decimals <= 3; decimals++ {
		text := strconv.FormatFloat(share, 'f', decimals, 64)
		if v, _ := strconv.ParseFloat(text, 64); v > 0 && v < 100 {
			return text + " %"
		}
	}
	if share < 50 {
		return "< 0.001 %"
	}
	return "> 99.999 %"
}

// Instant is a time to the second, in its zone.
func Instant(t time.Time) string { return t.Format("2006-01-02 15:04:05") }
