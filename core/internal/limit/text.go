package limit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// Parse reads a limit as core.ParseLimit documents it. It reports mistakes by the field of [Limit], or "" where it can't be told.
func Parse(s string) (Limit, []*mistake.Error) {
	p := parser{given: make(map[string]bool)}
	switch {
	case len(s) > quantity.MaxText:
		p.wrong("", s, "must be at most "+strconv.Itoa(quantity.MaxText)+" bytes long")
		return Limit{}, p.mistakes
	case p.slots(s):
	case !strings.Contains(s, "/"):
		reason := "has no slash between a rate and an interval"
		if text := withSlash(s); text != "" {
			if _, mistakes := Parse(text); len(mistakes) == 0 {
				reason += " (did you mean " + text + "?)"
			}
		}
		p.wrong("", strings.Trim(s, space), reason)
		return Limit{}, p.mistakes
	}
	if p.limit.Mode != bucket.Concurrent {
		p.rate(s)
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
	mistakes []*mistake.Error

	rest     string          // what is not read yet
	given    map[string]bool // fields that were given behind the interval
	from     string          // the text of the Anchor
	interval string          // the text of the RefillInterval
	hinted   bool            // what follows a misspelled word is a mistake for its sake
}

func (p *parser) wrong(field string, value any, reason string) {
	p.mistakes = append(p.mistakes, mistake.New(field, value, reason))
}

// rate reads what the text begins with: the rate, the unit and the interval.
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

// part reads one word behind the interval, with its value.
func (p *parser) part() {
	var word, field, value, reason string
	word, p.rest = cutWord(p.rest)
	switch keyword := quantity.Lower(word); keyword {
	case "burst":
		field = "Capacity"
		value, p.rest = cutWord(p.rest)
		p.limit.Capacity, reason = quantity.ParseTokens(value)
	case "name":
		field = "Name"
		p.limit.Name, value, p.rest, reason = cutName(p.rest)
	case "hold":
		field = "MaxHold"
		p.limit.MaxHold, value, p.rest, reason = quantity.CutInterval(p.rest)
	case "in":
		field = "Location"
		var zone string
		if zone, value, p.rest, reason = cutZone(p.rest); reason == "" {
			p.limit.Location, reason = LoadLocation(zone)
		}
	case "from":
		field = "Anchor"
		value, p.rest = cutWord(p.rest)
		p.from = value
	default:
		mode := slices.Index(Modes, keyword)
		if mode < 0 || mode == int(bucket.Concurrent) || p.limit.Mode == bucket.Concurrent {
			hint := ""
			if !p.hinted {
				hint = meant(word)
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

// complete adds what follows from other fields, and the mistakes of the limit as a whole.
func (p *parser) complete() {
	l := &p.limit
	if p.given["Anchor"] {
		var reason string
		if l.Anchor, reason = ParseAnchor(p.from, l.Days()); reason != "" {
			p.wrong("Anchor", p.from, reason)
		}
	}
	if !p.given["Mode"] && l.OnCalendar() {
		l.Mode = bucket.Aligned
	}
	if !p.given["Capacity"] && l.Mode != bucket.Concurrent {
		l.Capacity = quantity.ImpliedCapacity(l.RefillRate)
	}
	for _, err := range l.Mistakes("") {
		m := err.(*mistake.Error)
		if m.Field == "RefillInterval" {
			m.Value = p.interval // as it was written
		}
		if !slices.ContainsFunc(p.mistakes, func(known *mistake.Error) bool { return known.Field == m.Field }) {
			p.mistakes = append(p.mistakes, m)
		}
	}
}

// Modes are the names of modes in text, in the order of their values.
var Modes = []string{"continuous", "stepped", "aligned", "concurrent"}

// String is the limit as [Parse] reads it.
func (l Limit) String() string {
	s := l.rateText()
	if l.MaxHold != 0 {
		s += " hold " + quantity.FormatInterval(l.MaxHold)
	}
	if l.Name == "" {
		return s
	}
	return s + " name " + bareOrQuoted(l.Name)
}

// rateText is l's text but for MaxHold and the name.
func (l Limit) rateText() string {
	if l.Mode == bucket.Concurrent {
		return strconv.FormatInt(l.Capacity, 10) + l.unitText() + " at once"
	}
	s := quantity.FormatNumber(l.RefillRate) + l.unitText() + "/" + quantity.FormatInterval(l.RefillInterval)
	if float64(l.Capacity) != l.RefillRate {
		s += " burst " + strconv.FormatInt(l.Capacity, 10)
	}
	if l.Mode != bucket.Continuous && !(l.Mode == bucket.Aligned && l.OnCalendar()) {
		s += " " + strings.ToLower(l.Mode.String())
	}
	return s + l.calendarText()
}

// MarshalText writes a valid limit as [Limit.String] does and the zero Limit as "". Of others it
// returns the mistakes. So a limit is a string in JSON and YAML.
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
