// Package show writes numbers, times and keys as people read them.
package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Count is n with its digits in groups of three.
func Count(n int64) string {
	if n < 0 {
		return "-" + Count(-n)
	}
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", Count(n/1000), n%1000)
}

// Some is a count with the word for what is counted. It adds an s unless n is 1.
func Some(n int64, word string) string {
	if n != 1 {
		word += "s"
	}
	return Count(n) + " " + word
}

// Percent is the share of part in whole, with as many decimals as tell it from 0 and 100 %, but at most three.
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

// Duration is d by its two largest units.
func Duration(d time.Duration) string {
	units := []struct {
		name string
		of   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}, {"µs", time.Microsecond}}
	for i, u := range units {
		if d < u.of {
			continue
		}
		text := Count(int64(d/u.of)) + " " + u.name
		if rest := d % u.of; i+1 < len(units) && u.of > time.Second && rest >= units[i+1].of {
			text += fmt.Sprintf(" %d %s", rest/units[i+1].of, units[i+1].name)
		}
		return text
	}
	return "0 s"
}

// Instant is a time to the second, in its zone.
func Instant(t time.Time) string { return t.Format("2006-01-02 15:04:05") }

// most is how many bytes of a text from a file are shown.
const most = 96

// Text is s on one line of a terminal: quoted if it has other characters than printable ones, and clipped if it is long.
func Text(s string) string {
	clipped := s
	if len(clipped) > most {
		clipped = clipped[:most]
		for len(clipped) > 0 && !utf8.ValidString(clipped[max(0, len(clipped)-utf8.UTFMax):]) && len(clipped) > most-utf8.UTFMax {
			clipped = clipped[:len(clipped)-1]
		}
	}
	plain := utf8.ValidString(clipped) && clipped != "" && strings.TrimSpace(clipped) == clipped
	for _, r := range clipped {
		plain = plain && unicode.IsPrint(r)
	}
	if !plain {
		clipped = strconv.Quote(clipped)
	}
	if len(s) > most {
		clipped += "…"
	}
	return clipped
}
