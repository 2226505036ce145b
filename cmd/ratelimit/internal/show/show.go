// Package show writes numbers, times and keys as people read them.
package show

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// Numbers and times are those of sentences about buckets.
var (
	Count    = oncall.Count
	Some     = oncall.Some
	Duration = oncall.Duration
)

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
