package core

import (
	"fmt"
	"strconv"
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

// clip keeps messages short, whatever they quote.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
