package limit

import (
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// wantSlash is the reason for a unit in quotes that no slash follows.
const wantSlash = "must be followed by a slash and an interval"

// cutRate returns the rate and the unit that a limit's text begins with, and what follows the slash.
func cutRate(s string) (rate, unit, rest, reason string) {
	s = strings.TrimLeft(s, space)
	end := strings.IndexAny(s, space+"/")
	rate, s = s[:end], strings.TrimLeft(s[end:], space)
	if strings.HasPrefix(s, `"`) {
		closing := 1
		for closing < len(s) && s[closing] != '"' {
			if s[closing] == '\\' {
				closing++
			}
			closing++
		}
		if closing >= len(s) {
			return rate, s, "", "has no closing quote"
		}
		if unit, _, _, reason = cutName(s[:closing+1]); reason != "" {
			return rate, s[:closing+1], s[closing+1:], reason
		}
		s = strings.TrimLeft(s[closing+1:], space)
		if !strings.HasPrefix(s, "/") {
			return rate, unit, s, wantSlash
		}
		return rate, PlainUnit(unit), s[1:], ""
	}
	unit, rest, _ = strings.Cut(s, "/")
	unit = strings.TrimRight(unit, space)
	switch {
	case unit == "":
	case quantity.IsNumber(rate) && strings.Trim(unit, "0123456789 ") == "":
		reason = "is a second number: write thousands without space, as 1000 or 1_000"
	case !isBare(unit) || '0' <= unit[0] && unit[0] <= '9':
		if reason = badUnit(quantity.Lower(unit)); reason == "" {
			reason = `must be one word such as tokens, or stand in double quotes`
		}
	}
	return rate, PlainUnit(unit), rest, reason
}

// PlainUnit is the Unit of limits that count a unit as people write it: in lower case, and "" for requests.
func PlainUnit(unit string) string {
	if unit = quantity.Lower(unit); unit == quantity.Requests {
		return ""
	}
	return unit
}

// unitText is the unit as ParseLimit reads it behind the rate.
func (l Limit) unitText() string {
	switch unit := PlainUnit(l.Unit); {
	case unit == "":
		return ""
	case isBare(unit) && !strings.Contains(unit, "/") && (unit[0] < '0' || unit[0] > '9'):
		return " " + unit
	default:
		return " " + string(printable.AppendString(nil, unit))
	}
}
