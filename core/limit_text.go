package core

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// space is what may stand between words.
const space = quantity.Space

// ParseLimit reads a limit in the form
//
//	RATE/INTERVAL [burst N] [continuous|stepped|aligned] [name NAME]
//
// such as
//
//	100/min burst 20
//	0.1/s burst 5
//	1_000/2 weeks aligned name "per fortnight"
//
// RATE is a number above 0, read exactly: 100, 0.5, 1_000 or 1e6. Commas are refused, for half of the
// world reads them as points.
//
// INTERVAL is a unit, a count with a unit, or several of these, such as s, 30s, 5 min or 1h30m: every
// positive [time.Duration] as Go prints it is one. The units are s, sec, second; m, min, minute; h, hr,
// hour; d, day (24 hours); w, week; all with a plural; and ms, us, µs, ns. As in Go, m is the minute.
//
// What follows may stand in any order, each once:
//
//   - burst N is the Capacity, a whole number. Without it the Capacity is RATE, as [PerMinute] has it; a
//     RATE that is not whole needs a burst.
//   - continuous (the default), stepped or aligned is the [Mode].
//   - name NAME is the Name. A name of other characters than letters, digits and .:/_- stands in double
//     quotes, with \" for a quote and \\ for a backslash.
//
// Capitals don't matter except in the name, nor does space around words and the slash.
//
// The limit is valid, or the error joins a [ConfigError] for every mistake. [Limit.String] is the
// inverse.
func ParseLimit(s string) (Limit, error) {
	l, mistakes := parseLimit(s)
	if len(mistakes) == 0 {
		return l, nil
	}
	errs := make([]error, len(mistakes))
	for i, m := range mistakes {
		m.Field = strings.TrimSuffix("Limit."+m.Field, ".")
		errs[i] = m
	}
	return Limit{}, fmt.Errorf("ratelimit: limit %q (want %s): %w", clip(s, 80), quantity.LimitForm, errors.Join(errs...))
}

// parseLimit reports mistakes by the field of Limit, or "" where it can't be told.
func parseLimit(s string) (l Limit, mistakes []*ConfigError) {
	wrong := func(field string, value any, reason string) {
		mistakes = append(mistakes, &ConfigError{field, value, reason})
	}
	if len(s) > quantity.MaxText {
		wrong("", s, "must be at most "+itoa(quantity.MaxText)+" bytes long")
		return Limit{}, mistakes
	}
	rate, rest, found := strings.Cut(s, "/")
	if !found {
		wrong("", strings.Trim(s, space), "has no slash between a rate and an interval")
		return Limit{}, mistakes
	}
	var reason string
	rate = strings.Trim(rate, space)
	if l.RefillRate, reason = quantity.ParseNumber(rate); reason != "" {
		wrong("RefillRate", rate, reason)
	}
	var interval string
	if l.RefillInterval, interval, rest, reason = quantity.CutInterval(rest); reason != "" {
		wrong("RefillInterval", interval, reason)
	}
	given := make(map[string]bool)
	for rest != "" {
		var word, field, value string
		word, rest = cutWord(rest)
		switch keyword := strings.ToLower(word); keyword {
		case "burst":
			field = "Capacity"
			value, rest = cutWord(rest)
			if l.Capacity, reason = quantity.ParseTokens(value); reason != "" {
				wrong(field, value, reason)
			}
		case "name":
			field = "Name"
			if l.Name, value, rest, reason = cutName(rest); reason != "" {
				wrong(field, value, reason)
			}
		default:
			mode, ok := parseMode(keyword)
			if ok {
				field, value, l.Mode = "Mode", word, mode
				break
			}
			wrong("", word, "is not understood")
			continue
		}
		if given[field] {
			wrong(field, value, "is given a second time")
		}
		given[field] = true
	}
	if !given["Capacity"] {
		if l.Capacity, reason = quantity.ImpliedCapacity(l.RefillRate); reason != "" {
			wrong("Capacity", "", reason+": add burst N")
		}
	}
	for _, err := range l.mistakes("") {
		if m := err.(*ConfigError); !known(mistakes, m.Field) {
			mistakes = append(mistakes, m)
		}
	}
	return l, mistakes
}

// parseMode returns the mode that word names in lower case, or false.
func parseMode(word string) (Mode, bool) {
	for _, m := range [...]Mode{Continuous, Stepped, Aligned} {
		if word == strings.ToLower(m.String()) {
			return m, true
		}
	}
	return 0, false
}

// known reports whether a mistake of the field is among those listed.
func known(mistakes []*ConfigError, field string) bool {
	for _, m := range mistakes {
		if m.Field == field {
			return true
		}
	}
	return false
}

// cutWord returns the first word of s, and what follows it without space in front.
func cutWord(s string) (word, rest string) {
	n := strings.IndexAny(s, space)
	if n < 0 {
		return s, ""
	}
	return s[:n], strings.TrimLeft(s[n:], space)
}

// cutName returns the name that s begins with, bare or in quotes, and how it is written.
func cutName(s string) (name, written, rest, reason string) {
	if !strings.HasPrefix(s, `"`) {
		word, rest := cutWord(s)
		switch {
		case word == "":
			return "", "", rest, "is missing"
		case badName(word) == "" && !isBare(word):
			return "", word, rest, `must be in double quotes, with \" for a quote and \\ for a backslash`
		}
		return word, word, rest, ""
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			written, rest = s[:i+1], s[i+1:]
			trimmed := strings.TrimLeft(rest, space)
			switch {
			case rest != "" && rest == trimmed:
				return "", written, rest, "must be followed by space"
			case b.Len() == 0:
				return "", written, trimmed, "must not be empty"
			}
			return b.String(), written, trimmed, ""
		case '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", s, "", `has a backslash before neither " nor \`
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", s, "", "has no closing quote"
}

// String is the limit in the form that [ParseLimit] reads, such as
//
//	100/min burst 20
//	1000/2weeks aligned name "per fortnight"
//
// The burst is left out where it is the rate, and the mode where it is Continuous. The interval is in the
// largest unit that counts it in whole numbers. ParseLimit of the String of a valid limit is that limit, to
// the last bit.
func (l Limit) String() string {
	s := quantity.FormatNumber(l.RefillRate) + "/" + quantity.FormatInterval(l.RefillInterval)
	if float64(l.Capacity) != l.RefillRate {
		s += " burst " + itoa(l.Capacity)
	}
	if l.Mode != Continuous {
		s += " " + strings.ToLower(l.Mode.String())
	}
	if l.Name == "" {
		return s
	}
	if isBare(l.Name) {
		return s + " name " + l.Name
	}
	return s + " name " + string(appendString(nil, l.Name))
}

// isBare reports whether a name needs no quotes.
func isBare(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(".:/_-", r))
	}) < 0
}

// MarshalText writes a valid limit as [Limit.String] does and the zero Limit as "". Of others it
// returns the mistakes. So a limit is a string in JSON and YAML.
func (l Limit) MarshalText() ([]byte, error) {
	if l == (Limit{}) {
		return []byte{}, nil
	}
	if errs := l.mistakes("Limit."); len(errs) > 0 {
		return nil, fmt.Errorf("ratelimit: limit: %w", errors.Join(errs...))
	}
	return []byte(l.String()), nil
}

// UnmarshalText reads what [ParseLimit] reads, and "" as the zero Limit.
func (l *Limit) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*l = Limit{}
		return nil
	}
	parsed, err := ParseLimit(string(text))
	if err == nil {
		*l = parsed
	}
	return err
}
