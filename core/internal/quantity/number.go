// Package quantity reads and writes the numbers and intervals of limits, as
// [core.ParseLimit] and policy files have them. It is a package because limits
// in text, in JSON and in YAML have the same numbers.
//
// Functions that read return a reason. It is empty for what could be read, or
// says what to write instead.
//
// [core.ParseLimit]: https://pkg.go.dev/github.com/tokenbucket-go/ratelimit/core#ParseLimit
package quantity

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

const (
	// LimitForm is the grammar of a limit in a few words, for messages.
	LimitForm = `RATE [UNIT]/INTERVAL [burst N] [continuous|stepped|aligned] [in ZONE] [from DATE] [hold INTERVAL] [name NAME], such as "100/min burst 20", or N at once [hold INTERVAL] [name NAME]`
	// MaxTokens is the largest integer a structured header field can hold (RFC
	// 9651, 3.3.1).
	MaxTokens = 999_999_999_999_999
	// maxDigits is far more than any number needs, and keeps hostile ones
	// cheap.
	maxDigits = 64
)

const wantNumber = "must be a number such as 100, 0.5 or 1_000"

// ParseNumber reads a number as people write it: 100, 0.5, 1_000 or 1e6. It
// refuses what two readers could take for two numbers (1,000, 1.000 and 010)
// and digits that a float64 would drop: what it returns prints as what was
// written.
func ParseNumber(s string) (f float64, reason string) {
	if strings.Contains(s, ",") {
		return 0, "must be written without commas: 1000 or 1_000, and 0.5 with a point"
	}
	if !IsNumber(s) {
		if IsNumber(strings.ReplaceAll(s, "_", "")) && !strings.HasPrefix(s, "_") && !strings.HasSuffix(s, "_") {
			return 0, "has an underscore that does not end a group of three digits: write 1000 or 1_000"
		}
		return 0, wantNumber
	}
	if readsAsThousands(s) {
		return 0, twoNumbers(s)
	}
	if len(s) > maxDigits {
		return 0, "must be at most " + strconv.Itoa(maxDigits) + " digits long"
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
	// Cheap: s is short, and f is neither 0 nor infinite, so the exponent is
	// small.
	if written, ok := new(big.Rat).SetString(s); !ok || written.Cmp(Decimal(f)) != 0 {
		return 0, "has more digits than can be kept: use 15 or fewer"
	}
	return f, ""
}

// readsAsThousands reports whether half of the world reads the point of s as a
// comma between groups of three digits, as in 1.000 and 12.345.
func readsAsThousands(s string) bool {
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	return whole != "" && whole[0] != '0' && len(whole) <= 3 && digits(whole) == len(whole) &&
		len(fraction) == 3 && digits(fraction) == 3
}

// twoNumbers is the reason for a number that readsAsThousands. It says how to
// write either.
func twoNumbers(s string) string {
	whole, fraction, _ := strings.Cut(s, ".")
	short := strings.TrimRight(fraction, "0")
	switch len(short) {
	case 0:
		return "can be read as two numbers: write " + whole + fraction + " or " + whole
	case 3:
		short += "0"
	}
	return "can be read as two numbers: write " + whole + fraction + " or " + whole + "." + short
}

// Decimal is the fraction a person means by writing f: 1/10 for 0.1, not the
// nearest double; nil if f is no number.
func Decimal(f float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return r
}

func ParseTokens(s string) (n int64, reason string) {
	f, reason := ParseNumber(s)
	switch {
	case reason == wantNumber:
		return 0, "must be a whole number such as 100 or 1_000"
	case reason != "":
		return 0, reason
	case f != math.Trunc(f):
		return 0, "must be a whole number of tokens"
	case math.Abs(f) > MaxTokens:
		return 0, "must be from 1 to " + strconv.Itoa(MaxTokens) + " tokens"
	}
	return int64(f), ""
}

// ParseShare reads a number above 0 and at most 1.
func ParseShare(s string) (f float64, reason string) {
	f, reason = ParseNumber(s)
	switch {
	case reason == wantNumber:
		return 0, "must be a number such as 0.25 or 1"
	case reason == "" && !(f > 0 && f <= 1):
		return 0, "must be above 0 and at most 1"
	}
	return f, reason
}

// ImpliedCapacity is the capacity of a limit that gives only its refill rate:
// the rate, rounded up. A capacity out of range stays out of range.
func ImpliedCapacity(rate float64) int64 {
	if !(rate > 0) {
		return 1 // the rate is the mistake
	}
	return int64(math.Ceil(min(rate, MaxTokens+1)))
}

// IsNumber reports whether s is a sign, digits without a leading zero, a
// fraction and an exponent, all but the digits optional. Underscores may stand
// between groups of three digits before the point. It is no pattern, because a
// file may have thousands of texts, and each match of a pattern can allocate.
func IsNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	if len(s) > 1 && s[0] == '0' && (isDigit(s[1]) || s[1] == '_') {
		return false
	}
	whole := digits(s)
	grouped := whole <= 3
	if s = s[whole:]; whole == 0 {
		return false
	}
	for strings.HasPrefix(s, "_") {
		if !grouped || digits(s[1:]) != 3 {
			return false
		}
		s = s[4:]
	}
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

// Lower returns s with the letters A to Z in lower case. Other capitals stay,
// so that no text in another alphabet is taken for a word that it only looks
// like, such as mİn.
func Lower(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return 'A' <= r && r <= 'Z' }) < 0 {
		return s
	}
	lower := []byte(s)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// FormatNumber returns f as [ParseNumber] reads it, without an exponent where
// that is readable.
func FormatNumber(f float64) string {
	if a := math.Abs(f); a >= 1e-9 && a < 1e16 {
		s := strconv.FormatFloat(f, 'f', -1, 64)
		if readsAsThousands(s) {
			s += "0"
		}
		return s
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
