package middleware

import (
	"context"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
)

const twiceMessage = "ratelimit: a request was charged twice by one policy for the same key; check whether its middleware is installed twice"

// warnTwice logs, once, that limiter's policy has charged the request for the same key already: it is among outer.
func warnTwice(once *sync.Once, x Request, outer *Decision, limiter *core.Limiter, key string) {
	for o := outer; o != nil; o = o.outer {
		if !o.isMarker() && o.limiter.Name() == limiter.Name() && o.key == key {
			once.Do(func() {
				logger(limiter).Warn(twiceMessage, "code", "RL704", "policy", limiter.Name(), "path", x.Path())
			})
		}
	}
}

// joint is the decision of several limiters.
type joint struct {
	result core.JointResult
	rules  []owner
	by     *middleware
}

// owner is whose decision it is.
type owner struct {
	limiter *core.Limiter
	key     string
}

// await sets the decisions of a request that waits.
func (j *joint) await(ctx context.Context, deciding func(context.Context) context.Context, nothing bool, charges []core.Charge) error {
	return wait(ctx, j.rules[0].limiter, j.key(), nothing, func() (denied []core.Result, err error) {
		j.result, err = core.AllowTogether(deciding(ctx), charges...)
		return j.denied(), err
	})
}

// denied returns the decisions for which the request is denied; nil: it is allowed.
func (j *joint) denied() (denied []core.Result) {
	if j.result.Allowed {
		return nil
	}
	for _, r := range j.result.Results {
		if !r.Allowed {
			denied = append(denied, r)
		}
	}
	return denied
}

// key returns the key behind which requests of the same buckets wait.
func (j *joint) key() string {
	keys := make([]string, len(j.rules))
	for i, k := range j.rules {
		keys[i] = core.JoinKey(k.limiter.Name(), k.key)
	}
	return core.JoinKey(keys...)
}

// answer stores the decisions with the request, the tightest in front and all in front of outer, and sets the header fields of
// the response, those of the tightest last: it decides on the fields that have one value.
func (j *joint) answer(x Request, outer *Decision) {
	for _, k := range j.rules {
		warnTwice(&j.by.warnTwice, x, outer, k.limiter, k.key)
	}
	for _, i := range order(j.result) {
		packed, _ := pack(j.result.Results[i])
		outer = &Decision{packed: packed, limiter: j.rules[i].limiter, key: j.rules[i].key, outer: outer, by: j.by}
	}
	x.SetDecision(outer)
	if fields := x.Response(); fields != nil {
		j.result.WriteHeaders(fields)
	}
}
