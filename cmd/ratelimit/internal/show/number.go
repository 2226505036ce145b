package show

import (
	"fmt"
	"strconv"
	"time"
)

// Count is n with commas.
func Count(n int64) string {
	if n < 0 {
		return "-" + Count(-n)
	}
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", Count(n/1000), n%1000)
}

// Some is a count with the word for what is counted, with an s unless n is 1.
func Some(n int64, word string) string {
	if n != 1 {
		word += "s"
	}
	return Count(n) + " " + word
}

var units = []struct {
	name string
	of   time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}, {"µs", time.Microsecond}}

// Duration is d by its two largest units, or one below a minute.
func Duration(d time.Duration) string {
	for i, u := range units {
		if d < u.of {
			continue
		}
		text := Count(int64(d/u.of)) + " " + u.name
		if rest := d % u.of; u.of > time.Second && rest >= units[i+1].of {
			text += fmt.Sprintf(" %d %s", rest/units[i+1].of, units[i+1].name)
		}
		return text
	}
	return "0 s"
}

// Wait is d as Duration shows it, rounded up: who waits so long has waited
// enough.
func Wait(d time.Duration) string {
	step := time.Second
	switch {
	case d >= 24*time.Hour:
		step = time.Hour
	case d >= time.Hour:
		step = time.Minute
	case d < time.Second:
		step = time.Millisecond
	}
	return Duration((d + step - 1) / step * step)
}

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
