package adapter

import (
	"log/slog"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
)

const twiceMessage = "ratelimit: a request was charged twice by one policy for the same key; check whether its middleware is installed twice"

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
