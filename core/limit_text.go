package core

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/calendar"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// ParseLimit reads a limit in one of the forms
//
//	RATE [UNIT]/INTERVAL [burst N] [continuous|stepped|aligned] [in ZONE] [from DATE] [hold INTERVAL] [name NAME]
//	N [UNIT] at once [hold INTERVAL] [name NAME]
//
// such as
//
//	100/min burst 20
//	1_000/2weeks aligned name "per fortnight"
//	100_000 tokens/min
//	10_000/month in Europe/Berlin from 2025-10-31
//	5 at once hold 2min
//
// N at once is N slots: see [InFlight]. RATE is a number such as 100, 0.5,
// 1_000 or 1e6. UNIT is the [Limit.Unit], in double quotes if it has spaces.
//
// INTERVAL is a unit of time, or a number and a unit: s, 30s, 5 min. The units
// are s, sec, second; m, min, minute; h, hour; d, day (24 hours); w, week; ms,
// us, ns; and those of the calendar, mo, month and y, year: see [PerMonth].
// Words have plurals. It may also be as [time.Duration] prints it: 1h30m.
//
// What follows may stand in any order, each once:
//
//   - burst N is the Capacity, a whole number; without it that is RATE, rounded
//     up, as [PerMinute] has it.
//   - continuous (the default), stepped or aligned is the [Mode]. Months, in
//     and from are aligned.
//   - in ZONE is the Location, as [time.LoadLocation] knows it, but not Local:
//     see [Limit.In]. "week in UTC" is [PerWeek].
//   - from DATE is the Anchor: see [Limit.Anchored]. It is a day, 2025-10-31,
//     that begins when it does in the location, or an instant with an offset,
//     2025-10-31T12:00:00Z.
//   - hold INTERVAL is the MaxHold: see [Limit.WithMaxHold].
//   - name NAME is the Name: in double quotes, with \" and \\, if it has spaces
//     or quotes.
//
// An error about the text is a [ConfigError] with code RL110, and shows how to
// write a limit. If the text can be read, the limit is valid, or the error joins
// a ConfigError for every mistake. [Limit.String] is the inverse.
func ParseLimit(s string) (Limit, error) {
	l, err := readLimit(s)
	if err != nil {
		return Limit{}, fmt.Errorf("ratelimit: %w", err)
	}
	if errs := l.mistakes("Limit."); len(errs) > 0 {
		return Limit{}, fmt.Errorf("ratelimit: limit %q: %w", printable.Clip(s, 80), errors.Join(errs...))
	}
	return l, nil
}

// String is the limit in the form that [ParseLimit] reads, such as
//
//	100/min burst 20
//	1000/2weeks aligned name "per fortnight"
//
// It leaves out what is the default. ParseLimit of the String of a valid limit
// is that limit, to the last bit.
func (l Limit) String() string {
	unit := ""
	if l.otherUnit() {
		if unit = " " + wordText(l.Unit, bareUnit); unit == " at" {
			unit = ` "at"`
		}
	}
	var s string
	if l.Mode == Concurrent {
		s = strconv.FormatInt(l.Capacity, 10) + unit + " at once"
	} else {
		s = numberText(l.RefillRate) + unit + "/" + intervalText(l.RefillInterval)
		if l.Capacity != impliedCapacity(l.RefillRate) {
			s += " burst " + strconv.FormatInt(l.Capacity, 10)
		}
		if l.Mode != Continuous && !(l.Mode == Aligned && l.onCalendar()) {
			s += " " + strings.ToLower(l.Mode.String())
		}
		if l.Location != nil {
			s += " in " + wordText(l.Location.String(), bareName)
		}
		if !l.Anchor.IsZero() {
			s += " from " + anchorText(l.Anchor, l.days())
		}
	}
	if l.MaxHold != 0 {
		s += " hold " + intervalText(max(0, l.MaxHold))
	}
	if l.Name != "" {
		s += " name " + wordText(l.Name, bareName)
	}
	return s
}

// MarshalText writes a limit as [Limit.String] does, and the zero Limit as "".
// So a limit is a string in JSON and YAML. Of a limit that ParseLimit would not
// read as the same it returns the mistakes: of one that is not valid, or whose
// Location has a name that [time.LoadLocation] does not know.
func (l Limit) MarshalText() ([]byte, error) {
	if l == (Limit{}) {
		return []byte{}, nil
	}
	errs := l.mistakes("Limit.")
	text := l.String()
	if read, err := ParseLimit(text); len(errs) == 0 && (err != nil || !read.same(l.withoutDefaults())) {
		errs = append(errs, mistake.New("Limit.Location", l.Location.String(), "is not what time.LoadLocation returns for this name, so it can't be written as text"))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("ratelimit: limit: %w", errors.Join(errs...))
	}
	return []byte(text), nil
}

// withoutDefaults is l with the zero value for what it means.
func (l Limit) withoutDefaults() Limit {
	if !l.otherUnit() {
		l.Unit = ""
	}
	return l
}

// UnmarshalText reads a text in the form of [ParseLimit], and "" as the zero
// Limit. It refuses what it can't read. What a limit means, such as a rate of
// 0, is checked by [Policy.Validate] and [NewLimiter].
func (l *Limit) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*l = Limit{}
		return nil
	}
	read, err := readLimit(string(text))
	if err == nil {
		*l = read
	}
	return err
}

// rightLine is what messages show as a limit.
const rightLine = "60/min burst 20"

// maxText is far more than any limit needs, in bytes.
const maxText = 1024

// textError is the mistake in a text that is no limit.
func textError(s, reason string) *ConfigError {
	return &ConfigError{Field: "Limit", Value: s, Reason: "is no limit: " + reason + "; write it as " + rightLine}
}

// readLimit reads a limit that may have any values. The error is a ConfigError.
func readLimit(s string) (Limit, error) {
	if len(s) > maxText {
		return Limit{}, textError(s, "it is longer than "+strconv.Itoa(maxText)+" bytes")
	}
	r := limitReader{rest: s}
	l, err := r.limit()
	if err != nil {
		return Limit{}, textError(s, err.Error())
	}
	return l, nil
}

// limitReader reads a text from left to right.
type limitReader struct{ rest string }

func (r *limitReader) limit() (l Limit, err error) {
	number, _, err := r.word("/")
	if err != nil {
		return l, err
	}
	unit, quoted, err := r.word("/")
	if err != nil {
		return l, err
	}
	slots := unit == "at" && !quoted
	if !slots && unit != "" {
		if isDigit(unit[0]) && !quoted {
			return l, fmt.Errorf("%q is a second number: write 1000 or 1_000", unit)
		}
		if unit != Requests {
			l.Unit = unit
		}
		if !strings.HasPrefix(r.rest, "/") {
			at, _, err := r.word("/")
			if slots = at == "at"; err != nil || !slots {
				return l, fmt.Errorf("%q must be followed by / and an interval, or by at once", unit)
			}
		}
	}
	if slots {
		if once, _, err := r.word(""); err != nil || once != "once" {
			return l, errors.New(`"at" must be followed by once`)
		}
		l.Mode = Concurrent
		if l.Capacity, err = readTokens(number); err != nil {
			return l, err
		}
		return l, r.options(&l)
	}
	if !strings.HasPrefix(r.rest, "/") {
		return l, errors.New("it has no / between a rate and an interval")
	}
	r.rest = r.rest[1:]
	if l.RefillRate, err = readNumber(number); err != nil {
		return l, err
	}
	if l.RefillInterval, err = r.interval(); err != nil {
		return l, err
	}
	l.Capacity = impliedCapacity(l.RefillRate)
	return l, r.options(&l)
}

// options reads what follows the interval, or at once.
func (r *limitReader) options(l *Limit) error {
	var given []string
	slots, date := l.Mode == Concurrent, ""
	for {
		option, quoted, err := r.word("")
		if err != nil {
			return err
		}
		if option == "" {
			break
		}
		kind := option
		switch option {
		case "burst":
			err = r.value(option, func(value string) error { l.Capacity, err = readTokens(value); return err })
		case "continuous", "stepped", "aligned":
			kind, l.Mode = "mode", Mode(bucket.Modes.Value(option))
		case "in":
			err = r.value(option, func(value string) error { l.Location, err = loadLocation(value); return err })
		case "from":
			err = r.value(option, func(value string) error { date = value; return nil })
		case "hold":
			if l.MaxHold, err = r.interval(); l.MaxHold == 0 {
				l.MaxHold = noHold
			}
		case "name":
			err = r.value(option, func(value string) error { l.Name = value; return nil })
		default:
			kind = ""
		}
		switch {
		case err != nil:
			return err
		case kind == "", quoted, slots && kind != "hold" && kind != "name":
			return fmt.Errorf("%q is not understood", option)
		case slices.Contains(given, kind):
			return fmt.Errorf("%q is given a second time", option)
		}
		given = append(given, kind)
	}
	if date != "" {
		var err error
		if l.Anchor, err = readAnchor(date, l.days()); err != nil {
			return err
		}
	}
	if l.onCalendar() && !slices.Contains(given, "mode") {
		l.Mode = Aligned
	}
	return nil
}

// value reads the word behind an option.
func (r *limitReader) value(option string, read func(value string) error) error {
	value, _, err := r.word("")
	if err == nil && value == "" {
		return fmt.Errorf("%q must be followed by a value", option)
	}
	if err != nil {
		return err
	}
	return read(value)
}

const space = " \t\r\n"

// word reads a word, which ends at space or at one of stops, or is in double
// quotes, and the space behind it. At the end of the text it is "".
func (r *limitReader) word(stops string) (word string, quoted bool, err error) {
	r.rest = strings.TrimLeft(r.rest, space)
	end := strings.IndexAny(r.rest+" ", space+stops)
	if quoted = strings.HasPrefix(r.rest, `"`); quoted {
		end = len(quotedWord.FindString(r.rest))
	}
	word, r.rest = r.rest[:end], r.rest[end:]
	switch {
	case quoted && (word == "" || r.rest != "" && !strings.ContainsAny(r.rest[:1], space+stops)):
		return "", true, errors.New("a quote is not closed, or not followed by space")
	case quoted && word == `""`:
		return "", true, errors.New(`"" is empty`)
	case quoted:
		word = unquoter.Replace(word[1 : len(word)-1])
	case strings.Contains(word, `"`):
		return "", false, fmt.Errorf("%q has a quote inside", word)
	}
	r.rest = strings.TrimLeft(r.rest, space)
	return word, quoted, nil
}

var (
	quotedWord = regexp.MustCompile(`^"([^"\\]|\\["\\])*"`)
	unquoter   = strings.NewReplacer(`\"`, `"`, `\\`, `\`)
	bareUnit   = regexp.MustCompile(`^[A-Za-z.:_-][A-Za-z0-9.:_-]*$`)
	bareName   = regexp.MustCompile(`^[A-Za-z0-9.:/_+-]+$`) // of a limit or a zone
)

// wordText writes a word, in quotes if it is not bare.
func wordText(word string, bare *regexp.Regexp) string {
	if bare.MatchString(word) {
		return word
	}
	return string(printable.AppendString(nil, word))
}

// interval reads an interval of one word, or of several of which the next
// begins with a digit or follows one.
func (r *limitReader) interval() (time.Duration, error) {
	text, _, err := r.word("")
	for err == nil && r.rest != "" && text != "" && (isDigit(text[len(text)-1]) || isDigit(r.rest[0])) {
		var more string
		more, _, err = r.word("")
		text += more
	}
	if err != nil {
		return 0, err
	}
	return readInterval(text)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// timeUnits are the units of intervals, the longest first. The first name is
// written; all are read, also with an s.
var timeUnits = []struct {
	length time.Duration
	names  []string
}{
	{12 * Month, []string{"year", "y"}},
	{Month, []string{"month", "mo"}},
	{calendar.Week, []string{"week", "w"}},
	{calendar.Day, []string{"day", "d"}},
	{time.Hour, []string{"h", "hour"}},
	{time.Minute, []string{"min", "m", "minute"}},
	{time.Second, []string{"s", "sec", "second"}},
	{time.Millisecond, []string{"ms"}},
	{time.Microsecond, []string{"us", "µs", "μs"}}, // U+00B5 and U+03BC
	{time.Nanosecond, []string{"ns"}},
}

// readInterval reads a unit, a whole number of a unit, or a time.Duration as Go
// prints it.
func readInterval(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	name := strings.TrimLeft(s, "0123456789")
	count := int64(1)
	if digits := s[:len(s)-len(name)]; digits != "" {
		var err error
		if count, err = strconv.ParseInt(digits, 10, 64); err != nil {
			return 0, fmt.Errorf("%q is too long a time", s)
		}
	}
	for _, unit := range timeUnits {
		if !slices.Contains(unit.names, name) && !(len(name) > 2 && slices.Contains(unit.names, strings.TrimSuffix(name, "s"))) {
			continue
		}
		if count > math.MaxInt64/int64(unit.length) {
			return 0, fmt.Errorf("%q is too long a time", s)
		}
		return time.Duration(count) * unit.length, nil
	}
	return 0, fmt.Errorf("%q is no interval, such as min, 30s, 2weeks or 1h30m", s)
}

// intervalText writes d in the largest unit that counts it in whole numbers:
// min, 90s, 2days.
func intervalText(d time.Duration) string {
	for _, unit := range timeUnits {
		count, name := d/unit.length, unit.names[0]
		switch {
		case d == 0 || d%unit.length != 0:
		case count == 1:
			return name
		case unit.length >= calendar.Day:
			return strconv.FormatInt(int64(count), 10) + name + "s"
		default:
			return strconv.FormatInt(int64(count), 10) + name
		}
	}
	return "0s"
}

var number = regexp.MustCompile(`^-?[0-9][0-9_]*(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// readNumber reads a rate.
func readNumber(s string) (float64, error) {
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil || !number.MatchString(s) {
		return 0, fmt.Errorf("%q is no number, such as 100, 0.5 or 1_000", s)
	}
	return f, nil
}

// numberText writes a rate without an exponent where that is readable.
func numberText(f float64) string {
	if a := math.Abs(f); a >= 1e-9 && a < 1e16 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// readTokens reads a capacity.
func readTokens(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil || !number.MatchString(s) {
		return 0, fmt.Errorf("%q is no whole number, such as 100 or 1_000", s)
	}
	return n, nil
}

// locations are those that were loaded, by name: so that limits of the same text
// are the same limit.
var locations sync.Map

func loadLocation(name string) (*time.Location, error) {
	if known, ok := locations.Load(name); ok {
		return known.(*time.Location), nil
	}
	if lower := strings.ToLower(name); lower == "local" || lower == "localtime" {
		return nil, fmt.Errorf("%q is another place on each machine", name)
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		if _, err := time.LoadLocation("Europe/Berlin"); err != nil {
			return nil, fmt.Errorf(`%q is not known, for this process has no time zone data: import _ "time/tzdata"`, name)
		}
		return nil, fmt.Errorf("%q is no time zone, such as Europe/Berlin", name)
	}
	known, _ := locations.LoadOrStore(name, location)
	return known.(*time.Location), nil
}

// readAnchor reads a day of a location, which may be nil, or an instant.
func readAnchor(s string, location *time.Location) (time.Time, error) {
	if location == nil {
		location = time.UTC
	}
	if day, err := time.Parse(time.DateOnly, s); err == nil {
		return inRange(calendar.First(day, location))
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fmt.Errorf("%q is no day, such as 2025-10-31, and no instant, such as 2025-10-31T12:00:00Z", s)
	}
	return inRange(t)
}

// inRange refuses an anchor out of range. The zero time stands for none.
func inRange(t time.Time) (time.Time, error) {
	if t = t.UTC(); anchorOutOfRange(t) {
		return time.Time{}, fmt.Errorf("a date %s", anchorRange)
	}
	return t, nil
}

// anchorText writes an anchor as a day of the location, if one begins then.
func anchorText(t time.Time, location *time.Location) string {
	day := t.In(location).Format(time.DateOnly)
	if read, err := readAnchor(day, location); err == nil && read.Equal(t) {
		return day
	}
	return t.UTC().Format(time.RFC3339Nano)
}
