package adapter

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

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
		refuseArguments(err)
	}
	return &Engine[C]{rules: slices.Clone(rules), limiter: rules[0].Limiter, options: options}
}

const twiceMessage = "ratelimit: a request was charged twice by one policy for the same key; check whether its middleware is installed twice"

// warnTwice logs, once, that limiter's policy has charged the request for the same key already: it is among outer.
func warnTwice(once *sync.Once, x Exchange, outer *Decision, limiter *core.Limiter, key string) {
	for o := outer; o != nil; o = o.outer {
		if !o.isNote() && o.limiter.Name() == limiter.Name() && o.key == key {
			once.Do(func() {
				slog.Warn(twiceMessage, "code", "RL704", "policy", limiter.Name(), "path", x.Path())
			})
		}
	}
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

// answer stores the decisions with the request, the tightest in front and all in front of outer, and sets the header fields of
// the response, those of the tightest last: it decides on the fields that have one value.
func (j *joint) answer(x Exchange, outer *Decision) {
	for _, k := range j.rules {
		warnTwice(j.twice, x, outer, k.limiter, k.key)
	}
	for _, i := range j.result.Order() {
		outer = &Decision{j.result.Results[i].Keep(), j.rules[i].limiter, j.rules[i].key, outer}
	}
	x.Keep(outer)
	j.result.WriteHeaders(x.Response())
}
