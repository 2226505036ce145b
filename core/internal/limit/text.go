package limit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// Parse reads a limit as core.ParseLimit documents it. A unit that is not "" is
// written elsewhere: a second one in the text is a mistake. Parse reports
// mistakes by the field of [Limit], or "" where it can't be told.
func Parse(s, unit string) (Limit, []*mistake.Error) {
	p := parser{unit: unit, given: make(map[string]bool)}
	switch {
	case len(s) > quantity.MaxText:
		p.wrong("", s, "must be at most "+strconv.Itoa(quantity.MaxText)+" bytes long")
		return Limit{}, p.mistakes
	case p.slots(s), p.factor(s):
	case !strings.Contains(s, "/"):
		reason := "has no slash between a rate and an interval"
		text, before, behind := withSlash(s), " (did you mean ", "?)"
		if text == "" {
			text, before, behind = asFactor(s), " (in an override, ", " multiplies a limit)"
		}
		if text != "" {
			if _, mistakes := Parse(text, unit); len(mistakes) == 0 {
				reason += before + text + behind
			}
		}
		p.wrong("", strings.Trim(s, space), reason)
		return Limit{}, p.mistakes
	}
	if p.limit.Mode != bucket.Concurrent && p.limit.Times == 0 {
		p.rate(s)
	}
	if p.unit != "" {
		if p.limit.Unit != "" {
			p.wrong("Unit", p.limit.Unit, "is a second unit beside "+p.unit)
		}
		p.limit.Unit = PlainUnit(p.unit)
	}
	for p.rest != "" {
		p.part()
	}
	p.complete()
	return p.limit, p.mistakes
}

// parser reads a limit from left to right.
type parser struct {
	limit    Limit
	unit     string // if it is written elsewhere
	mistakes []*mistake.Error

	rest     string          // what is not read yet
	given    map[string]bool // fields that were given behind the interval
	from     string          // the text of the Anchor
	interval string          // the text of the RefillInterval
	hold     string          // the text of the MaxHold
	hinted   bool            // what follows a misspelled word is a mistake for its sake
}

func (p *parser) wrong(field string, value any, reason string) {
	p.mistakes = append(p.mistakes, mistake.New(field, value, reason))
}

func (p *parser) rate(s string) {
	rate, unit, rest, reason := cutRate(s)
	if p.limit.Unit = unit; reason != "" {
		p.wrong("Unit", unit, reason)
	}
	if p.limit.RefillRate, reason = quantity.ParseNumber(rate); reason != "" {
		p.wrong("RefillRate", rate, reason)
	}
	p.limit.RefillInterval, p.interval, p.rest, reason = quantity.CutInterval(rest)
	if reason == "" {
		reason = TooShort(p.limit.RefillInterval)
	}
	if reason != "" {
		p.wrong("RefillInterval", p.interval, reason)
	}
}

// slots reports whether s is a text of slots, such as 8 gpus at once, and reads
// what it begins with.
func (p *parser) slots(s string) bool {
	head, rest, ok := cutAtOnce(s)
	if !ok {
		return false
	}
	l := &p.limit
	l.Mode, p.rest = bucket.Concurrent, rest
	count, unit, _, reason := cutRate(head + "/")
	if reason == wantSlash {
		reason = "must be followed by at once"
	}
	if l.Unit = unit; reason != "" {
		p.wrong("Unit", unit, reason)
	}
	switch l.Capacity, reason = quantity.ParseTokens(count); {
	case reason == "":
	case quantity.IsNumber(count) && !strings.Contains(count, "."):
		p.wrong("Capacity", count, slotRange)
	default:
		p.wrong("Capacity", count, reason)
	}
	return true
}

// factor reports whether s is a text of a factor, such as x10, and reads it.
func (p *parser) factor(s string) bool {
	word, rest := quantity.CutWord(strings.Trim(s, space))
	number, ok := strings.CutPrefix(quantity.Lower(word), "x")
	if !ok {
		number, ok = strings.CutPrefix(word, "×")
	}
	if !ok || number == "" || number[0] < '0' || number[0] > '9' {
		return false
	}
	var reason string
	if p.limit.Times, reason = quantity.ParseNumber(number); reason == "" && p.limit.Times < leastTimes {
		p.limit.Times, reason = 1, "must be from 0.001 to 1,000,000"
	}
	if p.rest = rest; reason != "" {
		p.limit.Times = 1 // it is a factor
		p.wrong("Times", word, reason)
	}
	return true
}

// part reads one word behind the interval, with its value.
func (p *parser) part() {
	var field, value, reason string
	if p.misplaced() {
		return
	}
	word, rest := quantity.CutWord(p.rest)
	p.rest = rest
	keyword := quantity.Lower(word)
	switch keyword {
	case "burst":
		field = "Capacity"
		value, p.rest = quantity.CutWord(p.rest)
		p.limit.Capacity, reason = quantity.ParseTokens(value)
	case "name":
		field = "Name"
		p.limit.Name, value, p.rest, reason = cutName(p.rest)
	case "hold":
		field = "MaxHold"
		p.limit.MaxHold, value, p.rest, reason = quantity.CutInterval(p.rest)
		p.hold = value
		switch {
		case reason == "":
			reason = BadHold(p.limit.MaxHold)
		case quantity.IsNumber(value):
			reason = "needs a unit, such as " + value + "s"
		}
	case "in":
		field = "Location"
		var zone string
		if zone, value, p.rest, reason = cutZone(p.rest); reason == "" {
			p.limit.Location, reason = LoadLocation(zone)
		}
	case "from":
		field = "Anchor"
		value, p.rest = quantity.CutWord(p.rest)
		p.from = value
	default:
		mode := bucket.Modes.Value(keyword)
		if mode < 0 || mode == int(bucket.Concurrent) {
			hint := ""
			if !p.hinted {
				hint = meant(word, p.rest, p.keywords())
				p.hinted = hint != ""
			}
			p.wrong("", word, "is not understood"+hint)
			return
		}
		field, value, p.limit.Mode = "Mode", word, bucket.Mode(mode)
	}
	if reason != "" {
		p.wrong(field, value, reason)
	}
	if p.given[field] {
		p.wrong(field, value, "is given a second time")
	}
	p.given[field] = true
}

// misplaced reports whether another limit follows, or words of a rate behind
// slots, and reads them.
func (p *parser) misplaced() bool {
	word, rest := quantity.CutWord(p.rest)
	keyword := quantity.Lower(word)
	if quantity.IsNumber(word) || keyword == "at" {
		slots, more, ok := cutAtOnce(p.rest)
		if ok {
			p.wrong("", slots+"at once", "is a second limit: write each as a limit of its own")
			p.rest = more
		}
		return ok
	}
	reason := "is not for slots, which have no rate: only hold and name can follow at once"
	switch {
	case p.limit.Times != 0:
		reason = "is not for a factor, which multiplies what the limit has: only name can follow"
	case p.limit.Mode != bucket.Concurrent:
		return false
	}
	switch {
	case bucket.Modes.Value(keyword) >= 0:
		p.rest = rest
	case keyword == "burst" || keyword == "in" || keyword == "from" || keyword == "hold" && p.limit.Times != 0:
		var value string
		value, p.rest = quantity.CutWord(rest)
		word += " " + value
	default:
		return false
	}
	p.wrong("", strings.TrimSpace(word), reason)
	return true
}

func (p *parser) keywords() []string {
	keywords := []string{"name", "hold", "burst", "continuous", "stepped", "aligned", "from"}
	switch {
	case p.limit.Times != 0:
		return keywords[:1]
	case p.limit.Mode == bucket.Concurrent:
		return keywords[:2]
	case p.limit.Unit == "": // requests are no estimates
		return slices.Delete(keywords, 1, 2)
	}
	return keywords
}

// complete adds what follows from other fields, and the mistakes of the limit
// as a whole.
func (p *parser) complete() {
	l := &p.limit
	if l.Times != 0 {
		*l = Limit{Name: l.Name, Times: l.Times}
	}
	if p.given["Anchor"] {
		var reason string
		if l.Anchor, reason = ParseAnchor(p.from, l.Days()); reason != "" {
			p.wrong("Anchor", p.from, reason)
		}
	}
	if !p.given["Mode"] && l.OnCalendar() {
		l.Mode = bucket.Aligned
	}
	if !p.given["Capacity"] && l.Mode != bucket.Concurrent && l.Times == 0 {
		l.Capacity = quantity.ImpliedCapacity(l.RefillRate)
	}
	for _, err := range l.Mistakes("") {
		m := err.(*mistake.Error)
		switch m.Field { // as they were written
		case "RefillInterval":
			m.Value = p.interval
		case "MaxHold":
			m.Value = p.hold
		}
		if !slices.ContainsFunc(p.mistakes, func(known *mistake.Error) bool { return known.Field == m.Field }) {
			p.mistakes = append(p.mistakes, m)
		}
	}
}

// String is the limit as [Parse] reads it.
func (l Limit) String() string {
	s := l.rateText()
	switch l.MaxHold {
	case 0:
	case NoHold:
		s += " hold 0s"
	default:
		s += " hold " + quantity.FormatInterval(l.MaxHold)
	}
	if l.Name == "" {
		return s
	}
	return s + " name " + bareOrQuoted(l.Name)
}

func (l Limit) rateText() string {
	if l.Times != 0 {
		return "x" + quantity.FormatNumber(l.Times)
	}
	if l.Mode == bucket.Concurrent {
		return strconv.FormatInt(l.Capacity, 10) + l.unitText() + " at once"
	}
	s := quantity.FormatNumber(l.RefillRate) + l.unitText() + "/" + quantity.FormatInterval(l.RefillInterval)
	if float64(l.Capacity) != l.RefillRate {
		s += " burst " + strconv.FormatInt(l.Capacity, 10)
	}
	if l.Mode != bucket.Continuous && !(l.Mode == bucket.Aligned && l.OnCalendar()) {
		s += " " + bucket.Modes.Text(int(l.Mode))
	}
	return s + l.calendarText()
}

// MarshalText writes a valid limit as [Limit.String] does and the zero Limit as
// "". Of others it returns the mistakes. So a limit is a string in JSON and
// YAML.
func (l Limit) MarshalText() ([]byte, error) {
	if l == (Limit{}) {
		return []byte{}, nil
	}
	errs := l.Mistakes("Limit.")
	if reason := l.unspeakable(); len(errs) == 0 && reason != "" {
		errs = append(errs, mistake.New("Limit.Location", l.Location.String(), reason))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("ratelimit: limit: %w", errors.Join(errs...))
	}
	return []byte(l.String()), nil
}

const wantSlash = "must be followed by a slash and an interval"

// cutRate returns the rate and the unit that a limit's text begins with, and
// what follows the slash.
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

// PlainUnit is the Unit of limits that count a unit as people write it: in
// lower case, and "" for requests.
func PlainUnit(unit string) string {
	if unit = quantity.Lower(unit); unit == quantity.Requests {
		return ""
	}
	return unit
}

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
