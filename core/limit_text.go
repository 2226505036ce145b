package core

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// ParseLimit reads a limit in the form
//
//	RATE [UNIT]/INTERVAL [burst N] [continuous|stepped|aligned] [in ZONE] [from DATE] [hold INTERVAL] [name NAME]
//	N [UNIT] at once [hold INTERVAL] [name NAME]
//	xN [name NAME]
//
// such as
//
//	100/min burst 20
//	0.1/s burst 5
//	1_000/2 weeks aligned name "per fortnight"
//	100_000 tokens/min
//	10_000/month in Europe/Berlin from 2025-10-31
//	5 at once hold 2min
//
// N at once is N slots: see [InFlight]. xN is [Times] N, for overrides. RATE is a number above 0, read exactly: 100, 0.5, 1_000 or 1e6. Commas are refused, for half of the
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
//   - hold INTERVAL is the MaxHold, from 1 ms to 30 days: see [Limit.WithMaxHold]. It is for slots, and for limits of another unit
//     than requests.
//   - name NAME is the Name. A name of other characters than letters, digits and .:/_- stands in double
//     quotes, with \" for a quote and \\ for a backslash.
//
// Capitals don't matter except in the name and the zone, nor does space around words and the slash.
//
// The limit is valid, or the error joins a [ConfigError] for every mistake. [Limit.String] is the
// inverse.
func ParseLimit(s string) (Limit, error) {
	l, mistakes := limit.Parse(s)
	if len(mistakes) == 0 {
		return Limit(l), nil
	}
	errs := make([]error, len(mistakes))
	for i, m := range mistakes {
		m.Field = strings.TrimSuffix("Limit."+m.Field, ".")
		errs[i] = m
	}
	return Limit{}, fmt.Errorf("ratelimit: limit %q: %w; want %s", printable.Clip(s, 80), errors.Join(errs...), quantity.LimitForm)
}

// String is the limit in the form that [ParseLimit] reads, such as
//
//	100/min burst 20
//	1000/2weeks aligned name "per fortnight"
//	5 at once hold 2min
//
// The burst is left out where it is the rate, and the mode where it is Continuous. The interval is in the
// largest unit that counts it in whole numbers. ParseLimit of the String of a valid limit is that limit, to
// the last bit.
func (l Limit) String() string { return l.plain().String() }

// MarshalText writes a valid limit as [Limit.String] does and the zero Limit as "". Of others it
// returns the mistakes. So a limit is a string in JSON and YAML.
func (l Limit) MarshalText() ([]byte, error) { return l.plain().MarshalText() }

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
