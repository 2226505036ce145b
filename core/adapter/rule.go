package adapter

import (
	"errors"
	"fmt"
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
	return errors.Join(append(errs, Mistake(r.Key))...)
}

// costMistake returns what is wrong with a cost, which is a number of requests, if no limiter counts these.
func (o *Options[C]) costMistake(rules []Rule[C]) error {
	if o.Cost == nil || o.Limits != nil {
		return nil
	}
	for _, r := range rules {
		if r.Limiter == nil || r.Limiter.Counts("", core.Requests) {
			return nil
		}
	}
	if len(rules) == 0 {
		return nil
	}
	return &core.ConfigError{Field: "WithCost", Value: rules[0].Limiter.Name(), Reason: "is a policy without a limit that counts requests, and a cost is a number of requests: use WithUnits"}
}

// mistakes returns those in the options.
func (o *Options[C]) mistakes() error {
	errs := []error{Mistake(o.Cost), Mistake(o.Limits), Mistake(o.Units)}
	if o.Settle != nil && o.Refund != nil {
		errs = append(errs, &core.ConfigError{Field: "WithSettle", Value: "WithRefund", Reason: "can't be used together: a settlement of 0 is a refund"})
	}
	return errors.Join(errs...)
}

// decideTogether sets the decisions of v and stores them in j. A rule in shadow mode that can't decide, because its key is
// missing or it counts nothing that requests take, has no decision: it must not refuse the request. warn gets the error.
func decideTogether[C any](rules []Rule[C], o *Options[C], c C, v *Verdict, j *joint, warn func(error)) (fromUser bool, err error) {
	var missing error
	for _, r := range rules {
		fromUser = true
		key, err := call(r.Key, c)
		if err == nil && o.Units == nil && !r.Limiter.Counts("", core.Requests) {
			fromUser, err = false, fmt.Errorf("policy %q: %w: %s", r.Limiter.Name(), core.ErrUnit, core.Requests)
		}
		switch {
		case err == nil:
			j.rules = append(j.rules, kept{r.Limiter, key})
		case !r.Limiter.Policy().Shadow:
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
	charges := make([]core.Charge, len(j.rules))
	for i, k := range j.rules {
		charges[i] = core.Charge{Limiter: k.limiter, Key: k.key, Units: core.Units{}}
		if k.limiter.Counts("", core.Requests) {
			charges[i].Units[core.Requests] = take.cost
			if take.all {
				charges[i].Units[core.Requests] = 0
				if !slices.Contains(j.rules[:i], k) { // a bucket is charged its whole Capacity once
					charges[i].Units[core.Requests] = k.limiter.Capacity(k.key)
				}
			}
		}
		for unit, n := range take.units {
			if k.limiter.Counts("", unit) {
				charges[i].Units[unit] = n
			}
		}
	}
	for unit := range take.units {
		if unit != core.Requests && !slices.ContainsFunc(rules, func(r Rule[C]) bool { return r.Limiter.Counts("", unit) }) {
			return true, functionError{"units", fmt.Errorf("%w: %q", core.ErrUnit, unit)}
		}
	}
	j.result, err = core.AllowTogether(o.deciding(v.ctx), charges...)
	if err != nil {
		return false, err
	}
	v.joint, v.Result = j, j.result.Tightest()
	v.Result.Allowed = j.result.Allowed
	return false, nil
}
