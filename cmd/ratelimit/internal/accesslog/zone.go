package accesslog

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // servers may lack it
)

// regions begin the names of time zones.
var regions = []string{"Africa", "America", "Antarctica", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific", "Etc"}

// ParseZone returns the time zone of a name. Its error says what to write
// instead.
func ParseZone(name string) (*time.Location, error) {
	if strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("%q is another place on each machine: write a time zone such as Europe/Berlin", name)
	}
	if zone, err := time.LoadLocation(name); err == nil {
		return zone, nil
	}
	hint := ""
	if t, err := time.Parse("-07:00", name); err == nil {
		_, offset := t.Zone()
		hint = ": an offset holds in winter or in summer alone; write the zone of a place"
		if offset%3600 == 0 {
			hint = fmt.Sprintf(": for a fixed offset write Etc/GMT%+d, whose sign is turned round", -offset/3600)
		}
	}
	place := capitalised(name)
	for _, candidate := range append([]string{strings.ToUpper(name), place}, prefixed(place)...) {
		if _, err := time.LoadLocation(candidate); err == nil {
			hint = ": did you mean " + candidate + "?"
			break
		}
	}
	return nil, fmt.Errorf("%q is not a time zone such as Europe/Berlin%s", name, hint)
}

// prefixed returns a place with each region before it.
func prefixed(place string) (names []string) {
	for _, region := range regions {
		names = append(names, region+"/"+place)
	}
	return names
}

// capitalised is a name as time zones have it: New_York for "new york".
func capitalised(name string) string {
	letters := []byte(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), " ", "_"))
	for i, c := range letters {
		if 'a' <= c && c <= 'z' && (i == 0 || strings.IndexByte("/_-", letters[i-1]) >= 0) {
			letters[i] -= 'a' - 'A'
		}
	}
	return string(letters)
}
