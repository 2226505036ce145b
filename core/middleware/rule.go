package middleware

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Rule is one of several limiters of a middleware, with its key function.
type Rule[K any] struct {
	Limiter *core.Limiter
	Key     K
}

type rule[C any] = Rule[func(C) (string, error)]

// ruleMistakes returns those in a rule, whose fields the caller calls so.
func ruleMistakes[C any](r rule[C], limiter, key string) error {
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

// decideTogether sets the decisions of a and stores them in j. A rule in shadow
// mode that can't decide, because its key is missing or it counts nothing that
// requests take, has no decision: it must not refuse the request. warn gets the
// error.
func decideTogether[C any](rules []rule[C], o *Options[C], c C, a *Admission, wait bool, j *joint, warn func(error)) (fromUser bool, err error) {
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

// spread sets what each of charges takes of what the request takes.
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

// snapshots returns the rules' limiters as they are now, for one decision.
func snapshots[C any](rules []rule[C]) []*core.Limiter {
	limiters := make([]*core.Limiter, len(rules))
	for i, r := range rules {
		if j := slices.IndexFunc(rules[:i], func(o rule[C]) bool { return o.Limiter == r.Limiter }); j >= 0 {
			limiters[i] = limiters[j]
			continue
		}
		limiters[i] = snapshot(r.Limiter)
	}
	return limiters
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

// untaken returns the mistakes in what a limiter, which the caller calls field,
// counts beside what requests take. A unit that a middleware never takes is a
// limit that never applies. Without requests among its units, every request
// would fail. Options with Units may take any unit, so a limiter's own warning
// must do. In shadow mode no mistake may refuse anything.
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

// charge is what a request takes.
type charge struct {
	cost  int64      // requests
	all   bool       // as many requests as one request can take
	units core.Units // nil: requests alone
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
	if o.Units == nil {
		return take, nil
	}
	units, err := o.Units(c)
	if err != nil {
		return take, functionError{"units", err}
	}
	if units == nil {
		return take, nil
	}
	if _, given := units[core.Requests]; !given && o.Cost != nil {
		units = maps.Clone(units)
		if !take.all {
			units[core.Requests] = take.cost
		}
	} else {
		take.all = false
	}
	take.units = units
	return take, nil
}

// unitsOf is what the request takes from key of l, in units.
func (t *charge) unitsOf(l *core.Limiter, key string) core.Units {
	if !t.all {
		return t.units
	}
	units := maps.Clone(t.units)
	units[core.Requests] = l.Capacity(key)
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

// nothing reports whether a request takes nothing: it is denied only in debt.
func (t *charge) nothing() bool { return t.cost == 0 && t.units == nil && !t.all }

// A function that was made from bad arguments, such as ByHeader(""), must not
// call the user's code before there is a request, but New must find its
// mistake. So every such function is the closure that Invalid returns.
// ArgumentError recognizes it by its code, and calling it returns the mistake.

// Invalid returns a function that only returns mistake. All functions that it
// returns share their code, so the compiler must not inline it.
//
//go:noinline
func Invalid[C, V any](mistake error) func(C) (V, error) {
	return func(C) (none V, err error) { return none, mistake }
}

// ArgumentError returns what is wrong with the arguments that f was made from,
// or nil. The error joins a [core.ConfigError] for each mistake. New panics
// with it.
func ArgumentError[C, V any](f func(C) (V, error)) error {
	if f == nil || reflect.ValueOf(f).Pointer() != reflect.ValueOf(Invalid[C, V](nil)).Pointer() {
		return nil
	}
	var unused C
	_, err := f(unused)
	return err
}

// RefuseArguments panics with the mistakes in the arguments of a constructor.
func RefuseArguments(mistakes error) { core.Must[any](nil, fmt.Errorf("ratelimit: %w", mistakes)) }

// BadArgument returns the key or cost function of a call with a bad argument.
// New panics with a [core.ConfigError] of field, value and reason if it gets
// that function.
func BadArgument[C, V any](field string, value any, reason string) func(C) (V, error) {
	return Invalid[C, V](&core.ConfigError{Field: field, Value: value, Reason: reason})
}
