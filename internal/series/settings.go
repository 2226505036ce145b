package series

import (
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// DefaultMost is how many series a metrics package counts unless it is told otherwise. A policy
// commonly has 2 for each of its limits.
const DefaultMost = 2000

// Bounds are those of histograms of durations, in seconds. They reach from a decision in the process, through
// a round trip, to a store's timeout and beyond.
var Bounds = []float64{1e-6, 1e-5, 1e-4, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}

// Store is a store that is read when metrics are collected, and its name.
type Store struct {
	storestats.Source

	Name string
}

// Settings are what the options of all metrics packages set, and the mistakes in them.
type Settings struct {
	Package string // whose options these are
	Most    int    // series
	Stores  []Store

	mistakes []error
}

// Mistake notes a mistake in an option.
func (s *Settings) Mistake(format string, args ...any) {
	s.mistakes = append(s.mistakes, fmt.Errorf(s.Package+": "+format, args...))
}

// Err joins the mistakes, or is nil.
func (s *Settings) Err() error { return errors.Join(s.mistakes...) }

// SetMost is the option WithMaxSeries.
func (s *Settings) SetMost(n int) {
	if n < 1 {
		s.Mistake("WithMaxSeries: %d: must be at least 1", n)
		return
	}
	s.Most = n
}

// AddStore is the option WithRedisStore.
func (s *Settings) AddStore(name string, store storestats.Source) {
	switch {
	case isNil(store):
		s.Mistake("WithRedisStore(%q): must be a store", name)
		return
	case !utf8.ValidString(name):
		s.Mistake("WithRedisStore(%q): the name must be UTF-8", name)
		return
	}
	for _, known := range s.Stores {
		if known.Name == name {
			s.Mistake("WithRedisStore(%q): two stores must not have the same name", name)
			return
		}
	}
	s.Stores = append(s.Stores, Store{store, name})
}

// isNil reports whether v is nil or holds a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}
