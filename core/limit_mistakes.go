package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

const (
	// maxCapacity is the largest integer a structured header field can hold (RFC 9651, 3.3.1).
	maxCapacity = quantity.MaxTokens
	// maxFill bounds the time an empty bucket takes to fill, so that every delay is a
	// time.Duration and every instant a whole number of microseconds in a float64.
	maxFill = 100 * 365 * 24 * time.Hour
	// maxName keeps header fields and Redis keys short.
	maxName = 128
)

// mistakes lists what is wrong with l; field is how the caller writes l.
func (l Limit) mistakes(field string) []error {
	var errs []error
	wrong := func(name string, value any, reason string) {
		errs = append(errs, &ConfigError{field + name, value, reason})
	}
	if l.Name != "" {
		if reason := badName(l.Name); reason != "" {
			wrong("Name", l.Name, reason)
		}
	}
	capacityOK := l.Capacity >= 1 && l.Capacity <= maxCapacity
	if !capacityOK {
		wrong("Capacity", l.Capacity, "must be from 1 to "+itoa(maxCapacity)+" tokens")
	}
	rateOK := l.RefillRate > 0 && !math.IsInf(l.RefillRate, 0) // false for NaN
	if !rateOK {
		wrong("RefillRate", l.RefillRate, "must be a number above 0 (tokens every RefillInterval)")
	}
	intervalOK := l.RefillInterval >= time.Microsecond
	switch {
	case l.RefillInterval > 0 && !intervalOK: // a number without its unit is nanoseconds
		wrong("RefillInterval", l.RefillInterval, fmt.Sprintf("must be at least 1µs: did you mean %d * time.Second?", int64(l.RefillInterval)))
	case !intervalOK:
		wrong("RefillInterval", l.RefillInterval, "must be above 0")
	}
	if rateOK && intervalOK {
		switch {
		case l.RefillInterval > maxFill:
			wrong("RefillInterval", l.RefillInterval, "must be at most 100 years")
		case !capacityOK:
		case l.Mode != Continuous && !precise(decimal(l.RefillRate), roomFor(l.Capacity)):
			wrong("RefillRate", l.RefillRate, "has too many decimals for this Capacity")
		case float64(l.Capacity)/l.RefillRate > float64(maxFill)/float64(l.RefillInterval):
			wrong("RefillRate", l.RefillRate, "is too slow: an empty bucket would take more than 100 years to fill")
		}
	}
	if l.Mode > Aligned {
		wrong("Mode", l.Mode, "must be Continuous, Stepped or Aligned")
	}
	return errs
}

// badName says why name can't stand in a header field as an RFC 9651 String, or "".
func badName(name string) string {
	if name == "" {
		return "is required"
	}
	if len(name) > maxName {
		return "must be at most " + strconv.Itoa(maxName) + " bytes long"
	}
	if strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
		return "must be printable ASCII"
	}
	return ""
}
