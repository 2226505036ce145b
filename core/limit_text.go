package core

import (
	"cmp"
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
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// ParseLimit reads a limit in one of the forms
//
//	RATE [UNIT]/INTERVAL [burst N] [continuous|stepped|aligned] [in ZONE] [from DATE] [hold INTERVAL] [penalty INTERVAL] [name NAME]
//	N [UNIT] at once [hold INTERVAL] [name NAME]
//
// such as
//
//	100/min burst 20
//	1_000/2weeks aligned name "per fortnight"
//	100_000 tokens/min
//	10_000/month in Europe/Berlin from 2025-10-31
//	5 at once hold 2min
//	5/15min penalty 1h
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
//   - penalty INTERVAL is the Penalty: see [Limit.WithPenalty].
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
	if l.Penalty != 0 {
		s += " penalty " + intervalText(max(0, l.Penalty))
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
	if !l.otherUnit() {
		l.Unit = "" // which means requests too
	}
	if read, err := ParseLimit(text); len(errs) == 0 && (err != nil || !read.same(l)) {
		errs = append(errs, configError("Limit.Location", l.Location.String(), "is not what time.LoadLocation returns for this name, so it can't be written as text"))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("ratelimit: limit: %w", errors.Join(errs...))
	}
	return []byte(text), nil
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
	return &ConfigError{Field: "Limit", Value: s, Reason: "is not a limit: " + reason + "; write it as " + rightLine}
}

// readLimit reads a limit that may have any values. The error is a ConfigError.
func readLimit(s string) (Limit, error) {
	if len(s) > maxText {
		return Limit{}, textError(s, "it is longer than "+strconv.Itoa(maxText)+" bytes")
	}
	r := limitReader{rest: s}
	l := r.limit()
	if r.err != nil {
		return Limit{}, textError(s, r.err.Error())
	}
	return l, nil
}

// limitReader reads a text from left to right. It keeps the first error; what it
// returns after that means nothing.
type limitReader struct {
	rest string
	err  error
}

func (r *limitReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *limitReader) limit() (l Limit) {
	number, _ := r.word("/")
	unit, quoted := r.word("/")
	slots := unit == "at" && !quoted
	switch {
	case slots, unit == "", unit == Requests:
	case isDigit(unit[0]) && !quoted:
		r.fail(fmt.Errorf("%q is a second number: write 1000 or 1_000", unit))
	default:
		l.Unit = unit
	}
	if !slots && unit != "" && !strings.HasPrefix(r.rest, "/") {
		at, _ := r.word("/")
		if slots = at == "at"; !slots {
			r.fail(fmt.Errorf("%q must be followed by / and an interval, or by at once", unit))
		}
	}
	switch {
	case slots:
		if once, _ := r.word(""); once != "once" {
			r.fail(errors.New(`"at" must be followed by once`))
		}
		l.Mode, l.Capacity = Concurrent, r.tokens(number)
	case !strings.HasPrefix(r.rest, "/"):
		r.fail(errors.New("it has no / between a rate and an interval"))
	default:
		r.rest = r.rest[1:]
		l.RefillRate = r.number(number)
		l.RefillInterval = r.interval()
		l.Capacity = impliedCapacity(l.RefillRate)
	}
	r.options(&l)
	return l
}

// options reads what follows the interval, or at once.
func (r *limitReader) options(l *Limit) {
	var given []string
	slots, date := l.Mode == Concurrent, ""
	for r.err == nil && r.rest != "" {
		option, quoted := r.word("")
		kind := option
		switch {
		case quoted, slots && option != "hold" && option != "name":
			kind = ""
		case option == "burst":
			l.Capacity = r.tokens(r.value(option))
		case option == "continuous", option == "stepped", option == "aligned":
			kind, l.Mode = "mode", Mode(modes.Value(option))
		case option == "in":
			l.Location = r.location(r.value(option))
		case option == "from":
			date = r.value(option)
		case option == "hold":
			if l.MaxHold = r.interval(); l.MaxHold == 0 {
				l.MaxHold = noHold
			}
		case option == "penalty":
			if l.Penalty = r.interval(); l.Penalty == 0 {
				l.Penalty = noHold
			}
		case option == "name":
			l.Name = r.value(option)
		default:
			kind = ""
		}
		if kind == "" {
			r.fail(fmt.Errorf("%q is not understood", option))
		}
		if slices.Contains(given, kind) {
			r.fail(fmt.Errorf("%q is given a second time", option))
		}
		given = append(given, kind)
	}
	if date != "" {
		l.Anchor = r.anchor(date, l.days())
	}
	if l.onCalendar() && !slices.Contains(given, "mode") {
		l.Mode = Aligned
	}
}

// value reads the word behind an option.
func (r *limitReader) value(option string) string {
	value, _ := r.word("")
	if value == "" {
		r.fail(fmt.Errorf("%q must be followed by a value", option))
	}
	return value
}

const space = " \t\r\n"

// word reads a word, which ends at space or at one of stops, or is in double
// quotes, and the space behind it. At the end of the text it is "".
func (r *limitReader) word(stops string) (word string, quoted bool) {
	r.rest = strings.TrimLeft(r.rest, space)
	end := strings.IndexAny(r.rest+" ", space+stops)
	if quoted = strings.HasPrefix(r.rest, `"`); quoted {
		end = len(quotedWord.FindString(r.rest))
	}
	word, r.rest = r.rest[:end], r.rest[end:]
	switch {
	case quoted && (word == "" || r.rest != "" && !strings.ContainsAny(r.rest[:1], space+stops)):
		r.fail(errors.New("a quote is not closed, or not followed by space"))
	case quoted && word == `""`:
		r.fail(errors.New(`"" is empty`))
	case quoted:
		word = unquoter.Replace(word[1 : len(word)-1])
	case strings.Contains(word, `"`):
		r.fail(fmt.Errorf("%q has a quote inside", word))
	}
	r.rest = strings.TrimLeft(r.rest, space)
	return word, quoted
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
func (r *limitReader) interval() time.Duration {
	text, _ := r.word("")
	for r.err == nil && r.rest != "" && text != "" && (isDigit(text[len(text)-1]) || isDigit(r.rest[0])) {
		more, _ := r.word("")
		text += more
	}
	d, err := readInterval(text)
	if err != nil {
		r.fail(err)
	}
	return d
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
	{bucket.Week, []string{"week", "w"}},
	{bucket.Day, []string{"day", "d"}},
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
	return 0, fmt.Errorf("%q is not an interval, such as min, 30s, 2weeks or 1h30m", s)
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
		case unit.length >= bucket.Day:
			return strconv.FormatInt(int64(count), 10) + name + "s"
		default:
			return strconv.FormatInt(int64(count), 10) + name
		}
	}
	return "0s"
}

var numberForm = regexp.MustCompile(`^-?[0-9][0-9_]*(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// number reads a rate.
func (r *limitReader) number(s string) float64 {
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil || !numberForm.MatchString(s) {
		r.fail(fmt.Errorf("%q is not a number, such as 100, 0.5 or 1_000", s))
	}
	return f
}

// numberText writes a rate without an exponent where that is readable.
func numberText(f float64) string {
	if a := math.Abs(f); a >= 1e-9 && a < 1e16 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// tokens reads a capacity.
func (r *limitReader) tokens(s string) int64 {
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil || !numberForm.MatchString(s) {
		r.fail(fmt.Errorf("%q is not a whole number, such as 100 or 1_000", s))
	}
	return n
}

// locations are those that were loaded, by name: so that limits of the same text
// are the same limit.
var locations sync.Map

func (r *limitReader) location(name string) *time.Location {
	if known, ok := locations.Load(name); ok {
		return known.(*time.Location)
	}
	location, err := time.LoadLocation(name)
	switch lower := strings.ToLower(name); {
	case lower == "local" || lower == "localtime":
		r.fail(fmt.Errorf("%q is another place on each machine", name))
	case err != nil && noZones():
		r.fail(fmt.Errorf(`%q is not known, for this process has no time zone data: import _ "time/tzdata"`, name))
	case err != nil:
		r.fail(fmt.Errorf("%q is not a time zone, such as Europe/Berlin", name))
	}
	if r.err != nil {
		return nil
	}
	known, _ := locations.LoadOrStore(name, location)
	return known.(*time.Location)
}

// noZones reports whether the process has no time zone data.
func noZones() bool {
	_, err := time.LoadLocation("Europe/Berlin")
	return err != nil
}

func (r *limitReader) anchor(s string, location *time.Location) time.Time {
	t, err := readAnchor(s, location)
	switch {
	case err != nil:
		r.fail(fmt.Errorf("%q is neither a day, such as 2025-10-31, nor an instant, such as 2025-10-31T12:00:00Z", s))
	case anchorOutOfRange(t): // also the zero time, which stands for none
		r.fail(fmt.Errorf("%q %s", s, anchorRange))
	}
	return t
}

// readAnchor reads a day of a location, by default UTC, or an instant.
func readAnchor(s string, location *time.Location) (time.Time, error) {
	if day, err := time.Parse(time.DateOnly, s); err == nil {
		return bucket.First(day, cmp.Or(location, time.UTC)).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	return t.UTC(), err
}

// anchorText writes an anchor as a day of the location, if one begins then.
func anchorText(t time.Time, location *time.Location) string {
	day := t.In(location).Format(time.DateOnly)
	if read, err := readAnchor(day, location); err == nil && read.Equal(t) {
		return day
	}
	return t.UTC().Format(time.RFC3339Nano)
}
