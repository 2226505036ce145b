// Package core limits rates with token buckets. It knows no web framework: the
// adapters beside it turn it into middleware. Jobs and clients use it directly.
//
//	limiter, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{
//		Name:   "api",
//		Limits: []core.Limit{core.PerMinute(60).WithBurst(20)},
//	})
//	...
//	res, err := limiter.Allow(ctx, core.JoinKey("user", id))
//
// A [Limit] describes one bucket, or how many requests may be at work at once:
// [InFlight]. A [Policy] is a named set of limits that hold together; it also
// says what happens when the store can't answer. A [Store] keeps the buckets. A
// [Limiter] binds a policy to a store. A [Result] is one decision.
package core
