package core

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// ConfigError is one mistake in a configuration. Constructors report all of them at once, joined
// with [errors.Join]; [errors.As] finds the first.
type ConfigError struct {
	Field  string // as it is written in Go, such as Policy.Limits[1].Capacity; the option, or what was given to a constructor
	Value  any    // what it holds
	Reason string // what it must be
}

// Error names the field and its value and says what is wanted.
func (e *ConfigError) Error() string {
	return e.Field + ": " + e.value() + " " + e.Reason
}

// value is the value as messages show it.
func (e *ConfigError) value() string {
	if s, ok := e.Value.(string); ok {
		return strconv.Quote(clip(s, 80))
	}
	return fmt.Sprint(e.Value)
}

const (
	// maxCapacity is the largest integer a structured header field can hold (RFC 9651, 3.3.1).
	maxCapacity = 999_999_999_999_999
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
	intervalOK := l.RefillInterval > 0
	if !intervalOK {
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

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}

func itoa(n int64) string   { return strconv.FormatInt(n, 10) }
func ftoa(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// isNil reports whether v is nil or holds a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}
