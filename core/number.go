package core

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// maxNumberText is far more than any number needs, and keeps hostile ones cheap.
const maxNumberText = 64

// parseNumber reads a number as people write it: 100, 0.5, 1_000 or 1e6. It refuses what two readers
// could take for two numbers (1,000 and 010) and digits that a float64 would drop: what it returns
// prints as what was written. The reason is "" when it could.
func parseNumber(s string) (f float64, reason string) {
	if strings.Contains(s, ",") {
		return 0, "must be written without commas: 1000 or 1_000, and 0.5 with a point"
	}
	if !isNumber(s) {
		return 0, "must be a number such as 100, 0.5 or 1_000"
	}
	if len(s) > maxNumberText {
		return 0, "must be at most " + itoa(maxNumberText) + " digits long"
	}
	s = strings.ReplaceAll(s, "_", "")
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, "is too large"
	}
	if f == 0 {
		mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
		if strings.ContainsAny(mantissa, "123456789") {
			return 0, "is too small"
		}
		return 0, ""
	}
	// Cheap: s is short, and f is neither 0 nor infinite, so the exponent is small.
	if written, ok := new(big.Rat).SetString(s); !ok || written.Cmp(decimal(f)) != 0 {
		return 0, "has more digits than can be kept: use 15 or fewer"
	}
	return f, ""
}

// parseTokens reads a whole number of tokens.
func parseTokens(s string) (n int64, reason string) {
	f, reason := parseNumber(s)
	switch {
	case reason != "":
		return 0, reason
	case f != math.Trunc(f):
		return 0, "must be a whole number of tokens"
	case math.Abs(f) > maxCapacity:
		return 0, "must be from 1 to " + itoa(maxCapacity) + " tokens"
	}
	return int64(f), ""
}

// isNumber reports whether s is a sign, digits without a leading zero, a fraction and an exponent, all
// but the digits optional. Underscores may stand between the digits before the point.
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	if len(s) > 1 && s[0] == '0' && (isDigit(s[1]) || s[1] == '_') {
		return false
	}
	whole := 0
	for whole < len(s) && (isDigit(s[whole]) || whole > 0 && s[whole] == '_' && isDigit(s[whole-1])) {
		whole++
	}
	if whole == 0 || s[whole-1] == '_' {
		return false
	}
	s = s[whole:]
	if strings.HasPrefix(s, ".") {
		n := digits(s[1:])
		if n == 0 {
			return false
		}
		s = s[1+n:]
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		s = s[1:]
		if s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		n := digits(s)
		return n > 0 && n == len(s)
	}
	return s == ""
}

// digits counts the digits that s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// formatNumber is f as parseNumber reads it back, without an exponent where that is readable.
func formatNumber(f float64) string {
	if a := math.Abs(f); a >= 1e-9 && a < 1e16 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return ftoa(f)
}

func itoa(n int64) string   { return strconv.FormatInt(n, 10) }
func ftoa(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func decimal(f float64) *big.Rat {
	r, _ := new(big.Rat).SetString(ftoa(f))
	return r
}
