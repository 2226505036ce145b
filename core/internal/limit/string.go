package limit

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

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

// rateText is l's text but for MaxHold and the name.
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
