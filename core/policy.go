package core

import (
	"errors"
	"fmt"
	"math"
)

// Policy is a named set of limits that hold together: a request passes only if every limit has
// tokens for it, and takes from all or from none.
type Policy struct {
	// Name keeps the buckets of two policies in one store apart and stands in headers: required,
	// printable ASCII, at most 128 bytes. Limiters with the same name, store and key share buckets.
	Name string

	// Limits are decided together, in one step: at least one, at most 64.
	Limits []Limit

	// OnFailure says what happens while the store can't be reached. The zero value is FailLocal.
	OnFailure FailureMode

	// LocalShare is the part of each limit that this process grants on its own under FailLocal:
	// above 0, at most 1. With n replicas behind one load balancer 1/n keeps their sum at the limit.
	// The zero value is 1. Every limit grants at least one token.
	LocalShare float64

	// Shadow decides, charges and reports, and never denies: to introduce a limit without hurting anyone.
	// Results are Allowed then, with ShadowDenied where they would not be; no header fields are sent, nobody
	// waits, and neither a request without a key, nor a store that is away, nor a context that has ended
	// makes middleware stop anyone.
	Shadow bool

	// Headers are the header fields sent with every response. The zero value is HeadersDefault.
	Headers HeaderStyle
}

// Validate returns nil if [NewLimiter] accepts p, or an error that joins a [ConfigError] for every mistake,
// as NewLimiter reports them.
func (p Policy) Validate() error { return p.refusal() }

// refusal is the error for the mistakes in p and in what it is used with, or nil.
func (p Policy) refusal(others ...error) error {
	errs := append(p.mistakes(), others...)
	errs = append(errs, limitMistakes(p.Name, p.Limits, "Policy.Limits")...)
	switch {
	case p.isZero(): // as a map has it for a name that it does not know
		return fmt.Errorf("ratelimit: the policy is empty: if it was looked up by name, is the name misspelt? %w", errors.Join(errs...))
	case len(errs) > 0:
		return fmt.Errorf("ratelimit: policy %q: %w", clip(p.Name, maxName), errors.Join(errs...))
	}
	return nil
}

// isZero reports whether p is the zero Policy.
func (p Policy) isZero() bool {
	return p.Name == "" && p.Limits == nil && p.OnFailure == FailLocal && p.LocalShare == 0 && !p.Shadow && p.Headers == HeadersDefault
}

// mistakes lists what is wrong with p besides its limits.
func (p Policy) mistakes() []error {
	var errs []error
	if reason := badName(p.Name); reason != "" {
		errs = append(errs, &ConfigError{"Policy.Name", p.Name, reason})
	}
	if p.OnFailure > FailClosed {
		errs = append(errs, &ConfigError{"Policy.OnFailure", p.OnFailure, "must be FailLocal, FailOpen or FailClosed"})
	}
	if p.LocalShare < 0 || p.LocalShare > 1 || math.IsNaN(p.LocalShare) {
		errs = append(errs, &ConfigError{"Policy.LocalShare", p.LocalShare, "must be above 0 and at most 1 (0 means 1)"})
	}
	if !p.Headers.valid() {
		errs = append(errs, &ConfigError{"Policy.Headers", p.Headers, "must be HeadersNone or a sum of HeadersLegacy, HeadersIETF and HeadersDraft6"})
	}
	return errs
}

// scaled are p's limits with the share of them that one process grants on its own.
func scaled(limits []Limit, share float64) []Limit {
	local := make([]Limit, len(limits))
	for i, l := range limits {
		if share > 0 && share < 1 {
			l.Capacity = max(1, part(l.Capacity, share))
			// No slower than what fills the bucket in the longest time that a limit may take.
			slowest := float64(l.Capacity) * (float64(l.RefillInterval) / float64(maxFill))
			l.RefillRate = max(l.RefillRate*share, slowest)
		}
		local[i] = l
	}
	return local
}

// part is share × capacity, rounded down: but a share of 1/n, which a float64 can't hold, is meant as that.
func part(capacity int64, share float64) int64 {
	exact := float64(capacity) * share
	if nearest := math.Round(exact); math.Abs(exact-nearest) < 1e-9*nearest {
		return int64(nearest)
	}
	return int64(exact)
}

// FailureMode is what a limiter does while its store can't answer.
type FailureMode uint8

const (
	// FailLocal limits in this process alone, with buckets that start full, until the store is
	// back: n processes together admit up to n times the limit unless LocalShare says less. The
	// default.
	FailLocal FailureMode = iota
	// FailOpen admits every request.
	FailOpen
	// FailClosed admits none: HTTP clients get 503, never 429, and Allow returns ErrUnavailable.
	FailClosed
)

// String names the mode as it is written in Go, without the package.
func (m FailureMode) String() string {
	switch m {
	case FailLocal:
		return "FailLocal"
	case FailOpen:
		return "FailOpen"
	case FailClosed:
		return "FailClosed"
	}
	return "FailureMode(" + itoa(int64(m)) + ")"
}
