// Package core limits rates with token buckets. It knows no web framework: the adapters beside it
// turn it into middleware, jobs and clients use it as it is.
//
//	limiter, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{
//		Name:   "api",
//		Limits: []core.Limit{core.PerMinute(60).WithBurst(20)},
//	})
//	...
//	res, err := limiter.Allow(ctx, core.JoinKey("user", id))
//
// A [Limit] is one bucket, a [Policy] a named set of limits that hold together and what to do when
// they can't be asked, a [Store] where the buckets live, a [Limiter] a policy bound to a store, and a
// [Result] one decision.
package core
