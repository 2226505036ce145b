package series

import (
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// DefaultMost is the default bound of the number of series. A policy usually
// has 2 for each of its limits.
const DefaultMost = 2000

// Bounds are the default bounds of the duration histograms, in seconds. They
// cover decisions in the process, round trips and the timeout of a store.
var Bounds = []float64{1e-6, 1e-5, 1e-4, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}

// Store is a named store that is read when metrics are collected.
type Store struct {
	storestats.Source

	Name string
}

// Settings holds what the options of all metrics packages set, and the errors
// in their arguments.
type Settings struct {
	Package string // the package of the options, for messages
	Most    int    // bound of the number of series
	Stores  []Store

	errs []error
}

// ArgumentError adds a core.ConfigError to those of Err.
func (s *Settings) ArgumentError(option string, value any, reason string) {
	s.errs = append(s.errs, &core.ConfigError{Field: fmt.Sprintf("%s.%s", s.Package, option), Value: value, Reason: reason})
}

// Err returns all errors of arguments, or nil.
func (s *Settings) Err() error { return errors.Join(s.errs...) }

// SetMost implements the option WithMaxSeries.
func (s *Settings) SetMost(n int) {
	if n < 1 {
		s.ArgumentError("WithMaxSeries", n, "must be at least 1")
		return
	}
	s.Most = n
}

// AddStore implements the option WithRedisStore.
func (s *Settings) AddStore(name string, store storestats.Source) {
	switch {
	case isNil(store):
		s.ArgumentError("WithRedisStore", name, "has no store: it must not be nil")
		return
	case !utf8.ValidString(name):
		s.ArgumentError("WithRedisStore", name, "must be a name in UTF-8")
		return
	}
	for _, known := range s.Stores {
		if known.Name == name {
			s.ArgumentError("WithRedisStore", name, "must be a name that no other store has")
			return
		}
	}
	s.Stores = append(s.Stores, Store{store, name})
}

// Descriptions of metrics.
const (
	UnsettledHelp         = "Settlements and debits that failed."
	SlotsHelp             = "Slots that this process has taken and not released, and whose MaxHold is not over."
	TokensHelp            = "Tokens that decisions asked for, each at most the smallest Capacity of the policy."
	DurationHelp          = "How long decisions took, including waits for Redis and the fallback."
	BreakerStateHelp      = "State of a store's circuit breaker: 0 closed, 1 half-open, 2 open."
	BreakerOpenedHelp     = "How often a store's circuit breaker opened."
	FallbackHelp          = "How long a store's circuit breaker was not closed, so that each policy's OnFailure decided."
	DenyCacheHelp         = "Denials from the deny cache, without a call to Redis."
	LeasedHelp            = "Decisions from tokens that this process had leased."
	UnreadableHelp        = "Answers of a store that the state of a key can't be used."
	ExceptionsHelp        = "Exceptions that operators have set and this process obeys, by kind: override or block."
	ExceptionsVersionHelp = "Version of the exceptions that this process obeys: about when they last changed, in microseconds since 1970; 0: no exceptions."
	ExceptionsAgeHelp     = "Seconds since the store asked Redis with success whether exceptions have changed."
	CapacityHelp          = "Capacity of a limit that is in force."
	ChangesHelp           = "How often SetPolicy changed a policy."
)

func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}
