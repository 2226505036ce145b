package core

import (
	"strings"
	"sync"
	"time"
)

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
			return rate, unit, s, "must be followed by a slash and an interval"
		}
		return rate, plainUnit(unit), s[1:], ""
	}
	unit, rest, _ = strings.Cut(s, "/")
	unit = strings.TrimRight(unit, space)
	if unit != "" && (!isBare(unit) || '0' <= unit[0] && unit[0] <= '9') {
		reason = `must be one word such as tokens, or stand in double quotes`
	}
	return rate, plainUnit(unit), rest, reason
}

// plainUnit is the Unit of limits that count a unit: "" for requests.
func plainUnit(unit string) string {
	if unit == Requests {
		return ""
	}
	return unit
}

// unitText is the unit as ParseLimit reads it behind the rate.
func (l Limit) unitText() string {
	switch unit := plainUnit(l.Unit); {
	case unit == "":
		return ""
	case isBare(unit) && !strings.Contains(unit, "/") && (unit[0] < '0' || unit[0] > '9'):
		return " " + unit
	default:
		return " " + string(appendString(nil, unit))
	}
}

// calendarText is the Location and the Anchor as ParseLimit reads them.
func (l Limit) calendarText() (s string) {
	if l.Location != nil {
		s = " in " + bareOrQuoted(l.Location.String())
	}
	if !l.Anchor.IsZero() {
		s += " from " + formatAnchor(l.Anchor.In(l.location()))
	}
	return s
}

// locations holds those that loadLocation returned, by their names: the same limit in text is then the same Limit.
var locations sync.Map

// loadLocation returns the location of a name.
func loadLocation(name string) (location *time.Location, reason string) {
	if known, ok := locations.Load(name); ok {
		return known.(*time.Location), ""
	}
	location, err := time.LoadLocation(name)
	switch {
	case name == "":
		return nil, "must be a time zone such as Europe/Berlin"
	case err == nil:
		known, _ := locations.LoadOrStore(name, location)
		return known.(*time.Location), ""
	}
	if _, err := time.LoadLocation("Europe/Berlin"); err != nil {
		return nil, `is not known, for this process has no time zone data: import _ "time/tzdata", or install the package tzdata`
	}
	return nil, "is not a time zone such as Europe/Berlin"
}

// anchorForms are how an anchor can be written. The first that tells all is used.
var anchorForms = [...]string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02T15:04:05.999999999"}

// parseAnchor reads an anchor in a location. A location that is nil stands for one that could not be read.
func parseAnchor(s string, location *time.Location) (t time.Time, reason string) {
	if location == nil {
		location = time.UTC
	}
	for _, form := range anchorForms {
		if t, err := time.ParseInLocation(form, s, location); err == nil {
			return t.UTC(), ""
		}
	}
	return time.Time{}, "must be a day such as 2025-10-31, or with a time of day, such as 2025-10-31T12:00"
}

func formatAnchor(t time.Time) (s string) {
	for _, form := range anchorForms {
		s = t.Format(form)
		if again, reason := parseAnchor(s, t.Location()); reason == "" && again.Equal(t) {
			break
		}
	}
	return s
}

// unspeakable returns why ParseLimit could not read l's Location again, or "".
func (l Limit) unspeakable() string {
	if l.Location == nil {
		return ""
	}
	named, reason := loadLocation(l.Location.String())
	for month := 0; reason == "" && month < 12*140; month++ {
		t := time.Date(1970, time.Month(month+1), 1, 0, 0, 0, 0, time.UTC)
		_, got := t.In(named).Zone()
		if _, want := t.In(l.Location).Zone(); got != want {
			reason = "is not what time.LoadLocation returns for this name, so it can't be written as text"
		}
	}
	return reason
}
