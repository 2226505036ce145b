package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Options are what a user sets for one middleware. C is what handlers receive.
// The zero value of each field means its default.
type Options[C any] struct {
	Cost   func(C) (int64, error)        // how many requests a request counts as; by default 1
	Plan   func(C) (string, error)       // the policy's plan of a request; "", by default, means the policy's own limits
	Limits func(C) ([]core.Limit, error) // limits of a request; nil, by default, means those of the policy
	Units  func(C) (core.Units, error)   // what else a request takes; nil, by default, means nothing
	Floor  func(C) (core.Units, error)   // what a request must leave of the limits that it takes from; nil, by default, means nothing
	Settle func(C, int) core.Units       // what an answered request really took, given its status; nil means what was charged
	Skip   func(C) bool                  // whether a request passes without a limit; by default none does
	Refund func(C, int) bool             // whether a request gets its tokens back, given its status; by default none does
}

// mistakes returns those in the options.
func (o *Options[C]) mistakes() error {
	errs := []error{ArgumentError(o.Cost), ArgumentError(o.Plan), ArgumentError(o.Limits), ArgumentError(o.Units), ArgumentError(o.Floor)}
	if o.Settle != nil && o.Refund != nil {
		errs = append(errs, &core.ConfigError{Field: "WithSettle", Value: "WithRefund", Reason: "can't be used together: a settlement of 0 is a refund"})
	}
	return errors.Join(errs...)
}

// unitMistakes returns mistakes in what limiters count and requests don't take.
func (o *Options[C]) unitMistakes(rules []rule[C], fields ...string) error {
	if err := o.costMistake(rules); err != nil {
		return err // its hint is the one for the units, too
	}
	var errs []error
	for i, r := range rules {
		errs = append(errs, o.untaken(fields[i], r.Limiter), o.neverSettled(fields[i], r.Limiter))
	}
	return errors.Join(errs...)
}

// costMistake returns what is wrong with a cost, which is a number of requests,
// if no limiter counts these. In shadow mode it refuses nothing.
func (o *Options[C]) costMistake(rules []rule[C]) error {
	if o.Cost == nil || o.Limits != nil {
		return nil
	}
	enforced := ""
	for _, r := range rules {
		switch {
		case r.Limiter == nil || counts(r.Limiter, core.Requests):
			return nil
		case enforced == "" && !r.Limiter.Policy().Shadow:
			enforced = r.Limiter.Name()
		}
	}
	if enforced == "" {
		return nil
	}
	return &core.ConfigError{Field: "WithCost", Value: enforced, Reason: "is a policy without a limit that counts requests, and a cost is a number of requests: use WithUnits instead"}
}

// neverSettled returns what is wrong with a limiter, which the caller calls
// field, that gives estimates back after MaxHold, if this middleware settles
// none of them: the limit would never apply for longer than that. In shadow
// mode it refuses nothing.
func (o *Options[C]) neverSettled(field string, l *core.Limiter) error {
	if l == nil || o.Settle != nil {
		return nil
	}
	policy := l.Policy()
	if policy.Shadow {
		return nil
	}
	for limit := range allLimits(policy) {
		if holdsEstimates(limit) {
			return &core.ConfigError{Field: field, Value: policy.Name, Reason: fmt.Sprintf(
				"has a limit of %s with a MaxHold, and this middleware settles nothing, so all that requests take would come back: use WithSettle, or leave MaxHold out", limit.Unit)}
		}
	}
	return nil
}

// holdsEstimates reports whether what a limit took comes back after MaxHold,
// unless it is settled.
func holdsEstimates(l core.Limit) bool { return l.MaxHold != 0 && l.Mode != core.Concurrent }

// untaken returns the mistakes in what a limiter, which the caller calls field,
// counts beside what requests take. A unit that a middleware never takes is a
// limit that never applies. Without requests among its units, every request
// would fail. Options with Units may take any unit, so a limiter's own warning
// must do. In shadow mode no mistake may refuse anything.
func (o *Options[C]) untaken(field string, l *core.Limiter) error {
	if l == nil || o.Units != nil {
		return nil
	}
	policy := l.Policy()
	if policy.Shadow {
		return nil
	}
	counted := make(map[string]bool)
	for limit := range allLimits(policy) {
		counted[unitOf(limit)] = true
	}
	requests := counted[core.Requests]
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

// counts reports whether a limit of the limiter's policy counts a unit.
func counts(l *core.Limiter, unit string) bool {
	for limit := range allLimits(l.Policy()) {
		if unitOf(limit) == unit {
			return true
		}
	}
	return false
}

func unitOf(l core.Limit) string { return cmp.Or(l.Unit, core.Requests) }

// allLimits yields the limits of a policy and of its overrides.
func allLimits(p core.Policy) iter.Seq[core.Limit] {
	return func(yield func(core.Limit) bool) {
		for _, limits := range slices.Concat(slices.Collect(maps.Values(p.Overrides)), slices.Collect(maps.Values(p.Plans)), [][]core.Limit{p.Limits}) {
			for _, limit := range limits {
				if !yield(limit) {
					return
				}
			}
		}
	}
}

// charge is what a request takes.
type charge struct {
	cost  int64      // requests
	all   bool       // as many requests as one request can take
	units core.Units // nil: requests alone; else with the requests if there is a cost
	floor core.Units // what must be left; nil: nothing
}

// charge returns what the request c takes. Errors are of the user's functions.
func (o *Options[C]) charge(c C) (take charge, err error) {
	take.cost = 1
	if o.Cost != nil {
		take.cost, err = o.Cost(c)
		take.all = errors.Is(err, core.ErrUnknownCost)
		if err != nil && !take.all {
			return take, functionError{"cost", err}
		}
	}
	if o.Floor != nil {
		if take.floor, err = o.Floor(c); err != nil {
			return take, functionError{"floor", err}
		}
	}
	if o.Units == nil {
		return take, nil
	}
	if take.units, err = o.Units(c); err != nil {
		return take, functionError{"units", err}
	}
	_, given := take.units[core.Requests]
	switch {
	case given:
		take.all = false
	case o.Cost == nil && take.units == nil:
		take.units = core.Units{} // one request, if a limit counts requests
	case o.Cost != nil && take.units != nil && !take.all:
		take.units = take.unitsFor(take.cost)
	}
	return take, nil
}

// whole returns the most requests that the request can take: the smallest
// Capacity of the limits that count requests, but for its floor, and at least 1;
// 0 if no limit counts them.
func (t *charge) whole(limits []core.Limit) (least int64) {
	for _, l := range limits {
		if most := max(1, l.Capacity-t.floor[core.Requests]); unitOf(l) == core.Requests && (least == 0 || most < least) {
			least = most
		}
	}
	return least
}

// unitsFor is what the request takes if it counts as n requests.
func (t *charge) unitsFor(n int64) core.Units {
	units := core.Units{core.Requests: n}
	maps.Copy(units, t.units)
	return units
}

// deciding is the context in which a request with the context ctx is decided.
// If ctx ended while a store decides, the store might take the tokens, and
// nobody would settle them. So a decision that is to be settled goes on: it
// takes no longer than the store's timeout.
func (o *Options[C]) deciding(ctx context.Context) context.Context {
	if o.Settle == nil || ctx.Err() != nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// functionError is an error of a function of the user.
type functionError struct {
	name string
	error
}

func (f functionError) Error() string { return f.name + ": " + f.error.Error() }
func (f functionError) Unwrap() error { return f.error }
