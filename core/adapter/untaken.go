package adapter

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// untaken returns the mistakes in what a limiter, which the caller calls field, counts beside what requests take. A unit that a
// middleware never takes is a limit that never applies. Without requests among its units, every request would fail. Options with
// Units may take any unit, so a limiter's own warning must do. In shadow mode no mistake may refuse anything.
func (o *Options[C]) untaken(field string, l *core.Limiter) error {
	if l == nil || o.Units != nil {
		return nil
	}
	l.Require(core.Requests)
	policy := l.Policy()
	if policy.Shadow {
		return nil
	}
	counted := make(map[string]bool)
	for _, limits := range append(slices.Collect(maps.Values(policy.Overrides)), policy.Limits) {
		for _, limit := range limits {
			counted[limit.Unit] = true
		}
	}
	requests := counted[""] || counted[core.Requests]
	delete(counted, "")
	delete(counted, core.Requests)
	var errs []error
	for _, unit := range slices.Sorted(maps.Keys(counted)) {
		if o.Settle == nil {
			errs = append(errs, &core.ConfigError{Field: field, Value: unit, Reason: fmt.Sprintf(
				"is a unit that policy %q counts and this middleware never takes, so its limit would never apply: take it by WithUnits, or leave the unit out to count requests", policy.Name)})
		}
	}
	if len(errs) == 0 && !requests {
		errs = append(errs, &core.ConfigError{Field: field, Value: core.Requests, Reason: fmt.Sprintf(
			"is a unit that no limit of policy %q counts, and that this middleware takes without WithUnits, so every request would fail", policy.Name)})
	}
	return errors.Join(errs...)
}
