package adapter

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Rule is one of several limiters of a middleware, with its key.
type Rule[C any] struct {
	Limiter *core.Limiter
	Key     func(C) (string, error)
}

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

// mistakes returns those in the options.
func (o *Options[C]) mistakes() error {
	errs := []error{Mistake(o.Cost), Mistake(o.Limits), Mistake(o.Units)}
	if o.Settle != nil && o.Refund != nil {
		errs = append(errs, &core.ConfigError{Field: "WithSettle", Value: "WithRefund", Reason: "can't be used together: a settlement of 0 is a refund"})
	}
	return errors.Join(errs...)
}

// joint is the decision of several limiters.
type joint struct {
	result core.JointResult
	rules  []kept
	twice  *sync.Once
}

// kept is whose decision it is.
type kept struct {
	limiter *core.Limiter
	key     string
}

// decideTogether sets the decisions of v. A rule in shadow mode whose key is missing has none: it must not refuse the request.
func (e *Engine[C]) decideTogether(c C, x Exchange, v *Verdict) (fromUser bool, err error) {
	j := &joint{twice: &e.warnTwice}
	var missing error
	for _, r := range e.rules {
		key, err := call(r.Key, c)
		switch {
		case err == nil:
			j.rules = append(j.rules, kept{r.Limiter, key})
		case !r.Limiter.Policy().Shadow:
			return true, err
		default:
			missing = err
		}
	}
	if missing != nil {
		if len(j.rules) == 0 {
			return true, missing
		}
		e.warnNoKey.Do(func() {
			slog.Warn(shadowMessage, "policy", e.limiter.Name(), "status", core.ProblemOf(missing).Status, "path", x.Path(), "error", missing)
		})
	}
	take, err := e.options.charge(c)
	if err != nil {
		return true, err
	}
	charges := make([]core.Charge, len(j.rules))
	counted := make(map[string]bool)
	for i, k := range j.rules {
		charges[i] = core.Charge{Limiter: k.limiter, Key: k.key, Units: core.Units{core.Requests: take.cost}}
		if take.all {
			charges[i].Units[core.Requests] = k.limiter.Capacity(k.key)
		}
		if e.options.Units == nil && !k.limiter.Counts("", core.Requests) {
			return false, fmt.Errorf("policy %q: %w: %s", k.limiter.Name(), core.ErrUnit, core.Requests)
		}
		for unit, n := range take.units {
			if unit == core.Requests || k.limiter.Counts("", unit) {
				charges[i].Units[unit], counted[unit] = n, true
			}
		}
	}
	for unit := range take.units {
		if !counted[unit] {
			return true, functionError{"units", fmt.Errorf("%w: %q", core.ErrUnit, unit)}
		}
	}
	j.result, err = core.AllowTogether(v.ctx, charges...)
	if err != nil {
		return false, err
	}
	v.joint, v.Result = j, j.result.Tightest()
	v.Result.Allowed = j.result.Allowed
	return false, nil
}

// answer stores the decisions with the request, the tightest in front and all in front of outer, and sets the header fields of
// the response, those of the tightest last: it decides on the fields that have one value.
func (j *joint) answer(x Exchange, outer *Decision) {
	for _, k := range j.rules {
		for o := outer; o != nil; o = o.outer {
			if !o.isNote() && o.limiter.Name() == k.limiter.Name() && o.key == k.key {
				j.twice.Do(func() {
					slog.Warn(twiceMessage, "policy", k.limiter.Name(), "path", x.Path())
				})
			}
		}
	}
	for _, i := range j.result.Order() {
		outer = &Decision{j.result.Results[i].Keep(), j.rules[i].limiter, j.rules[i].key, outer}
	}
	x.Keep(outer)
	j.result.WriteHeaders(x.Response())
}

// AllFromContext returns the Results of all decisions about a request, the newest first. kept is what the request's Kept
// returns.
func AllFromContext(kept any) (all []core.Result) {
	for d, _ := kept.(*Decision); d != nil; d = d.outer {
		if !d.isNote() {
			all = append(all, d.result.Result())
		}
	}
	return all
}
