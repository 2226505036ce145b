package core

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// ParseLimit reads a limit in the form
//
//	RATE [UNIT]/INTERVAL [burst N] [continuous|stepped|aligned] [in ZONE] [from DATE] [name NAME]
//
// such as
//
//	100/min burst 20
//	0.1/s burst 5
//	1_000/2 weeks aligned name "per fortnight"
//	100_000 tokens/min
//	10_000/month in Europe/Berlin from 2025-10-31
//
// RATE is a number above 0, read exactly: 100, 0.5, 1_000 or 1e6. Commas are refused, for half of the
// world reads them as points, and so are 1.000 and 12.345, for the other half reads these as thousands: write 12345, or
// 12.3450. UNIT is the [Limit.Unit]; without it, and if it is requests, the limit counts requests. A unit
// of other characters than letters, digits and .:_-, or one that begins with a digit, stands in double quotes.
//
// INTERVAL is a unit, a count with a unit, or several of these, the largest first, such as s, 30s, 5 min or 1h30m: every
// positive [time.Duration] as Go prints it is one. The units are s, sec, second; m, min, minute; h, hr,
// hour; d, day (24 hours); w, week; all with a plural; and ms, us, µs, ns. As in Go, m is the minute; M is refused. mo, month
// and y, year with their plurals are those of the calendar: see [PerMonth].
//
// What follows may stand in any order, each once:
//
//   - burst N is the Capacity, a whole number. Without it the Capacity is RATE, as [PerMinute] has it; a
//     RATE that is not whole needs a burst.
//   - continuous (the default), stepped or aligned is the [Mode]. Months, in and from are aligned.
//   - in ZONE is the Location, as [time.LoadLocation] knows it: see [Limit.In]. "week in UTC" is [PerWeek]. Local is
//     refused, for it is another place on each machine.
//   - from DATE is the Anchor: see [Limit.Anchored]. It is a day such as 2025-10-31, or with a time of day,
//     2025-10-31T12:00 or 2025-10-31T12:00:00, as clocks in the location show it. If they show it twice, the first is meant.
//     A time with an offset or Z, such as 2025-10-31T12:00Z, is that instant.
//   - name NAME is the Name. A name of other characters than letters, digits and .:/_- stands in double
//     quotes, with \" for a quote and \\ for a backslash.
//
// Capitals don't matter except in the name and the zone, nor does space around words and the slash.
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
	return Limit{}, fmt.Errorf("ratelimit: limit %q (want %s): %w", printable.Clip(s, 80), quantity.LimitForm, errors.Join(errs...))
}

// parseLimit reports mistakes by the field of Limit, or "" where it can't be told.
func parseLimit(s string) (l Limit, mistakes []*ConfigError) {
	wrong := func(field string, value any, reason string) {
		mistakes = append(mistakes, mistake.New(field, value, reason))
	}
	if len(s) > quantity.MaxText {
		wrong("", s, "must be at most "+itoa(quantity.MaxText)+" bytes long")
		return Limit{}, mistakes
	}
	if !strings.Contains(s, "/") {
		reason := "has no slash between a rate and an interval"
		if text := withSlash(s); text != "" {
			if _, mistakes := parseLimit(text); len(mistakes) == 0 {
				reason += " (did you mean " + text + "?)"
			}
		}
		wrong("", strings.Trim(s, space), reason)
		return Limit{}, mistakes
	}
	var reason string
	rate, unit, rest, problem := cutRate(s)
	if l.Unit = unit; problem != "" {
		wrong("Unit", unit, problem)
	}
	if l.RefillRate, reason = quantity.ParseNumber(rate); reason != "" {
		wrong("RefillRate", rate, reason)
	}
	var interval string
	if l.RefillInterval, interval, rest, reason = quantity.CutInterval(rest); reason != "" {
		wrong("RefillInterval", interval, reason)
	} else if reason = tooShort(l.RefillInterval); reason != "" {
		wrong("RefillInterval", interval, reason)
	}
	given := make(map[string]bool)
	from, hinted := "", false
	for rest != "" {
		var word, field, value string
		word, rest = cutWord(rest)
		switch keyword := quantity.Lower(word); keyword {
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
		case "in":
			field = "Location"
			var zone string
			if zone, value, rest, reason = cutZone(rest); reason == "" {
				l.Location, reason = loadLocation(zone)
			}
			if reason != "" {
				wrong(field, value, reason)
			}
		case "from":
			field = "Anchor"
			value, rest = cutWord(rest)
			from = value
		default:
			mode, ok := parseMode(keyword)
			if ok {
				field, value, l.Mode = "Mode", word, mode
				break
			}
			hint := ""
			if !hinted { // what follows a misspelled word is a mistake for its sake
				hint = meant(word)
				hinted = hint != ""
			}
			wrong("", word, "is not understood"+hint)
			continue
		}
		if given[field] {
			wrong(field, value, "is given a second time")
		}
		given[field] = true
	}
	if from != "" || given["Anchor"] {
		if l.Anchor, reason = parseAnchor(from, l.location()); reason != "" {
			wrong("Anchor", from, reason)
		}
	}
	if !given["Mode"] && l.onCalendar() {
		l.Mode = Aligned
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

// String is the limit in the form that [ParseLimit] reads, such as
//
//	100/min burst 20
//	1000/2weeks aligned name "per fortnight"
//
// The burst is left out where it is the rate, and the mode where it is Continuous. The interval is in the
// largest unit that counts it in whole numbers. ParseLimit of the String of a valid limit is that limit, to
// the last bit.
func (l Limit) String() string {
	s := quantity.FormatNumber(l.RefillRate) + l.unitText() + "/" + quantity.FormatInterval(l.RefillInterval)
	if float64(l.Capacity) != l.RefillRate {
		s += " burst " + itoa(l.Capacity)
	}
	if l.Mode != Continuous && !(l.Mode == Aligned && l.onCalendar()) {
		s += " " + strings.ToLower(l.Mode.String())
	}
	s += l.calendarText()
	if l.Name == "" {
		return s
	}
	return s + " name " + bareOrQuoted(l.Name)
}

// MarshalText writes a valid limit as [Limit.String] does and the zero Limit as "". Of others it
// returns the mistakes. So a limit is a string in JSON and YAML.
func (l Limit) MarshalText() ([]byte, error) {
	if l == (Limit{}) {
		return []byte{}, nil
	}
	errs := l.mistakes("Limit.")
	if reason := l.unspeakable(); len(errs) == 0 && reason != "" {
		errs = append(errs, mistake.New("Limit.Location", l.Location.String(), reason))
	}
	if len(errs) > 0 {
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
