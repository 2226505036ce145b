package adapter

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// NewTogether returns an engine of several limiters that decide together: a request is allowed if all of them have the tokens,
// and takes nothing if not. See [core.AllowTogether]. It panics as [New] does, also without a rule, and with Limits.
func NewTogether[C any](rules []Rule[C], options Options[C]) *Engine[C] {
	var errs []error
	if len(rules) == 0 {
		errs = append(errs, &core.ConfigError{Field: "NewTogether", Value: 0, Reason: "rules given: it needs at least one, a limiter and a key"})
	}
	for i, r := range rules {
		errs = append(errs, r.mistakes(fmt.Sprintf("NewTogether rules[%d].Limiter", i), fmt.Sprintf("NewTogether rules[%d].Key", i)))
	}
	if options.Limits != nil {
		errs = append(errs, &core.ConfigError{Field: "NewTogether", Value: "WithLimits", Reason: "can't be used with several limiters: use Policy.Overrides, or a limiter for each plan"})
	}
	if err := errors.Join(append(errs, options.mistakes())...); err != nil {
		panic(fmt.Errorf("ratelimit: %w", err))
	}
	return &Engine[C]{rules: slices.Clone(rules), limiter: rules[0].Limiter, options: options}
}
