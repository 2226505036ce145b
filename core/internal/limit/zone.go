package limit

import (
	"strings"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

func (l Limit) calendarText() (s string) {
	if l.Location != nil {
		s = " in " + bareOrQuoted(l.Location.String())
	}
	if !l.Anchor.IsZero() {
		s += " from " + formatAnchor(l.Anchor.In(l.Days()))
	}
	return s
}

// locations are by their names: the same limit in text is then the same Limit.
var locations sync.Map

// LoadLocation returns the location of a name.
func LoadLocation(name string) (location *time.Location, reason string) {
	if known, ok := locations.Load(name); ok {
		return known.(*time.Location), ""
	}
	switch {
	case name == "":
		return nil, "must be a time zone such as Europe/Berlin"
	case quantity.Lower(name) == "local":
		return nil, "is another place on each machine: write a time zone such as Europe/Berlin"
	case !namesZone(name):
		return nil, "is not a time zone such as Europe/Berlin"
	}
	location, err := time.LoadLocation(name)
	if err == nil {
		known, _ := locations.LoadOrStore(name, location)
		return known.(*time.Location), ""
	}
	if _, err := time.LoadLocation("Europe/Berlin"); err != nil {
		return nil, `is not known, for this process has no time zone data: import _ "time/tzdata", or install the package tzdata`
	}
	if strings.Trim(name, "UTCGMZutcgmz+-0123456789:") == "" && strings.ContainsAny(name, "+-") {
		return nil, "is an offset, and not a time zone such as Europe/Berlin, whose clocks may change"
	}
	for _, capitals := range [...]string{strings.ToUpper(name), capitalized(name)} {
		if _, err := time.LoadLocation(capitals); err == nil {
			return nil, "is not a time zone: write " + capitals
		}
	}
	return nil, "is not a time zone such as Europe/Berlin"
}

// namesZone reports whether name has the form of a name in the IANA database. A
// file system finds others too, such as Europe//Berlin, and zones that count
// leap seconds.
func namesZone(name string) bool {
	for i, part := range strings.Split(name, "/") {
		switch {
		case part == "", part == ".", part == "..", i == 0 && (part == "posix" || part == "right"):
			return false
		}
	}
	return name != "localtime" && name != "posixrules" && name != "Factory"
}

// capitalized returns the name of a zone with a capital at the beginning of
// each word, as in America/New_York.
func capitalized(name string) string {
	capitals := []byte(quantity.Lower(name))
	for i, c := range capitals {
		if 'a' <= c && c <= 'z' && (i == 0 || strings.IndexByte("/_-", capitals[i-1]) >= 0) {
			capitals[i] = c - 'a' + 'A'
		}
	}
	return string(capitals)
}

// anchorForms are how an anchor can be written. The first that tells all is
// used. All but the first may end with an offset.
var anchorForms = [...]string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02T15:04:05.999999999"}

const withOffset = "Z07:00"

// ParseAnchor reads an anchor in a location. A location that is nil stands for
// one that could not be read.
func ParseAnchor(s string, location *time.Location) (t time.Time, reason string) {
	if location == nil {
		location = time.UTC
	}
	for i, form := range anchorForms {
		if shown, err := time.Parse(form, s); err == nil {
			if t = bucket.First(shown, location); !bucket.Shown(t).Equal(shown) && !outOfRange(shown) {
				return time.Time{}, "is a time that clocks in " + location.String() + " left out: they were set forward"
			}
			return inRange(t)
		}
		if t, err := time.Parse(form+withOffset, s); i > 0 && err == nil {
			return inRange(t)
		}
	}
	return t, "must be a day such as 2025-10-31, or with a time of day, such as 2025-10-31T12:00"
}

func inRange(t time.Time) (time.Time, string) {
	if t = t.UTC(); outOfRange(t) { // also the zero time, which stands for no anchor
		return time.Time{}, anchorRange
	}
	return t, ""
}

// formatAnchor writes an anchor as clocks in its location show it, and in UTC
// if they show that twice.
func formatAnchor(t time.Time) string {
	reads := func(written string) bool {
		again, reason := ParseAnchor(written, t.Location())
		return reason == "" && again.Equal(t)
	}
	for _, form := range anchorForms {
		if written := t.Format(form); reads(written) {
			return written
		}
	}
	for _, form := range anchorForms[1:] {
		if written := t.UTC().Format(form + withOffset); reads(written) {
			return written
		}
	}
	return t.UTC().Format(time.RFC3339Nano) // of no valid limit
}

// unspeakable returns why ParseLimit could not read l's Location again, or "".
func (l Limit) unspeakable() string {
	if l.Location == nil {
		return ""
	}
	named, reason := LoadLocation(l.Location.String())
	for month := 0; reason == "" && month < 12*140; month++ {
		t := time.Date(1970, time.Month(month+1), 1, 0, 0, 0, 0, time.UTC)
		_, got := t.In(named).Zone()
		if _, want := t.In(l.Location).Zone(); got != want {
			reason = "is not what time.LoadLocation returns for this name, so it can't be written as text"
		}
	}
	return reason
}
