package middleware

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Rule is one of several limiters of a middleware, with its key.
type Rule[C any] struct {
	Limiter *core.Limiter
	Key     func(C) (string, error)
}

// mistakes returns those in a rule, whose fields the caller calls so.
func (r Rule[C]) mistakes(limiter, key string) error {
	var errs []error
	if r.Limiter == nil {
		errs = append(errs, &core.ConfigError{Field: limiter, Value: nil, Reason: "must be a limiter from core.NewLimiter"})
	}
	if r.Key == nil {
		errs = append(errs, &core.ConfigError{Field: key, Value: nil, Reason: "must be a key function, such as ByIP()"})
	}
	return errors.Join(append(errs, ArgumentError(r.Key))...)
}

// mistakes returns those in the options.
func (o *Options[C]) mistakes() error {
	errs := []error{ArgumentError(o.Cost), ArgumentError(o.Plan), ArgumentError(o.Limits), ArgumentError(o.Units)}
	if o.Settle != nil && o.Refund != nil {
		errs = append(errs, &core.ConfigError{Field: "WithSettle", Value: "WithRefund", Reason: "can't be used together: a settlement of 0 is a refund"})
	}
	return errors.Join(errs...)
}

// decideTogether sets the decisions of a and stores them in j. A rule in shadow mode that can't decide, because its key is
// missing or it counts nothing that requests take, has no decision: it must not refuse the request. warn gets the error.
func decideTogether[C any](rules []Rule[C], o *Options[C], c C, a *Admission, wait bool, j *joint, warn func(error)) (fromUser bool, err error) {
	var missing error
	policies := snapshots(rules)
	var charges []core.Charge
	for i, r := range rules {
		fromUser = true
		key, err := call(r.Key, c)
		if err == nil && o.Units == nil && !counts(policies[i], "", core.Requests) {
			fromUser, err = false, fmt.Errorf("policy %q: %w: %s", r.Limiter.Name(), core.ErrUnit, core.Requests)
		}
		switch {
		case err == nil:
			j.rules = append(j.rules, owner{r.Limiter, key})
			charges = append(charges, core.Charge{Limiter: policies[i], Key: key, Units: core.Units{}})
		case !policies[i].Policy().Shadow:
			return fromUser, err
		default:
			missing = err
		}
	}
	if missing != nil {
		if len(j.rules) == 0 {
			return true, missing
		}
		warn(missing)
	}
	take, err := o.charge(c)
	if err != nil {
		return true, err
	}
	take.spread(charges, j.rules)
	for unit := range take.units {
		if unit != core.Requests && !slices.ContainsFunc(policies, func(l *core.Limiter) bool { return counts(l, "", unit) }) {
			return true, functionError{"units", fmt.Errorf("%w: %q", core.ErrUnit, unit)}
		}
	}
	if wait {
		err = j.await(a.ctx, o.deciding, take.nothing(), charges)
	} else {
		j.result, err = core.AllowTogether(o.deciding(a.ctx), charges...)
	}
	if err != nil {
		return false, err
	}
	a.joint, a.Result = j, j.result.Tightest()
	a.Result.Allowed = j.result.Allowed
	return false, nil
}

// spread sets what each of the charges takes, those that it counts of what the request takes. rules are whose charges they are.
func (t *charge) spread(charges []core.Charge, rules []owner) {
	for i, charge := range charges {
		if counts(charge.Limiter, "", core.Requests) {
			charge.Units[core.Requests] = t.cost
			if t.all {
				charge.Units[core.Requests] = 0
				if !slices.Contains(rules[:i], rules[i]) { // a bucket is charged its whole Capacity once
					charge.Units[core.Requests] = charge.Limiter.Capacity(charge.Key)
				}
			}
		}
		for unit, n := range t.units {
			if counts(charge.Limiter, "", unit) {
				charge.Units[unit] = n
			}
		}
	}
}

// snapshots returns the rules' limiters with the policies that they have now, for one decision. Rules of one limiter share a
// snapshot.
func snapshots[C any](rules []Rule[C]) []*core.Limiter {
	limiters := make([]*core.Limiter, len(rules))
	for i, r := range rules {
		if j := slices.IndexFunc(rules[:i], func(o Rule[C]) bool { return o.Limiter == r.Limiter }); j >= 0 {
			limiters[i] = limiters[j]
			continue
		}
		limiters[i] = snapshot(r.Limiter)
	}
	return limiters
}

// unitMistakes returns the mistakes in what the rules' limiters, which the caller calls so, count beside what requests take.
func (o *Options[C]) unitMistakes(rules []Rule[C], fields ...string) error {
	if err := o.costMistake(rules); err != nil {
		return err // its hint is the one for the units, too
	}
	var errs []error
	for i, r := range rules {
		errs = append(errs, o.untaken(fields[i], r.Limiter), o.neverSettled(fields[i], r.Limiter))
	}
	return errors.Join(errs...)
}

// costMistake returns what is wrong with a cost, which is a number of requests, if no limiter counts these. In shadow mode it
// refuses nothing.
func (o *Options[C]) costMistake(rules []Rule[C]) error {
	if o.Cost == nil || o.Limits != nil {
		return nil
	}
	enforced := ""
	for _, r := range rules {
		switch {
		case r.Limiter == nil || counts(r.Limiter, "", core.Requests):
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

// neverSettled returns what is wrong with a limiter, which the caller calls field, that gives estimates back after MaxHold, if this
// middleware settles none of them: the limit would never apply for longer than that. In shadow mode it refuses nothing.
func (o *Options[C]) neverSettled(field string, l *core.Limiter) error {
	if l == nil || o.Settle != nil {
		return nil
	}
	policy := l.Policy()
	if policy.Shadow {
		return nil
	}
	for limit := range allLimits(policy) {
		if limit.MaxHold != 0 && limit.Mode != core.Concurrent {
			return &core.ConfigError{Field: field, Value: policy.Name, Reason: fmt.Sprintf(
				"has a limit of %s with a MaxHold, and this middleware settles nothing, so all that requests take would come back: use WithSettle, or leave MaxHold out", limit.Unit)}
		}
	}
	return nil
}

// allLimits yields the limits of a policy and of its overrides.
func allLimits(p core.Policy) iter.Seq[core.Limit] {
	return func(yield func(core.Limit) bool) {
		for _, limits := range slices.Concat(slices.Collect(maps.Values(p.Overrides)), slices.Collect(maps.Values(p.Plans)), [][]core.Limit{p.Limits}) {
			for _, limit := range limits {
				if limit.Times == 0 && !yield(limit) {
					return
				}
			}
		}
	}
}

// untaken returns the mistakes in what a limiter, which the caller calls field, counts beside what requests take. A unit that a
// middleware never takes is a limit that never applies. Without requests among its units, every request would fail. Options with
// Units may take any unit, so a limiter's own warning must do. In shadow mode no mistake may refuse anything.
func (o *Options[C]) untaken(field string, l *core.Limiter) error {
	if l == nil || o.Units != nil {
		return nil
	}
	require(l, core.Requests)
	policy := l.Policy()
	if policy.Shadow {
		return nil
	}
	counted := make(map[string]bool)
	for limit := range allLimits(policy) {
		counted[limit.Unit] = true
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
