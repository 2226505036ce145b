package fiberlimit

import (
	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/internal/fast"
)

// Rule is one of the limiters of [NewTogether], with its key.
type Rule struct {
	Limiter *core.Limiter
	Key     KeyFunc
}

// NewTogether returns a middleware that lets a request pass if all limiters have tokens for their keys, and takes nothing from
// any if not: a user and the organisation, for instance. See [core.AllowTogether]. The header fields of all limiters are
// sent, and the longest Retry-After. Everything else is as with [New], and [WithLimits] can't be used.
func NewTogether(rules []Rule, options ...Option) fiber.Handler {
	o := configured(options)
	var list []adapter.Rule[*fiber.Ctx]
	for _, r := range rules {
		list = append(list, adapter.Rule[*fiber.Ctx]{Limiter: r.Limiter, Key: fast.CopyKey(r.Key)})
	}
	return middleware(adapter.NewTogether(list, o.Options), o)
}

// AllFromContext returns the decisions of all limiters about the request, the newest first. Of those that decided together,
// the tightest comes first.
func AllFromContext(c *fiber.Ctx) []core.Result {
	return adapter.AllFromContext(c.Locals(decisionKey{}))
}
