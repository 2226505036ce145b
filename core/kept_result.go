package core

import "github.com/tokenbucket-go/ratelimit/core/internal/bucket"

// KeptResult is a [Result] in a quarter of its memory, for middleware that keeps one with every request although few
// handlers ask for it. Its zero value holds the zero Result. It costs no allocation for what most requests are: allowed
// by one limit, without a failure. Of any other Result it keeps a copy.
type KeptResult struct {
	plan      *plan // nil: the Result is *whole
	bucket    uint64
	now, cost int64
	level     bucket.Level
	source    Source
	headers   HeaderStyle
	whole     *Result // nil: the Result is zero, or follows from the other fields
}

// Keep returns r, as a limiter returned it, as a KeptResult: changes of its fields may be lost.
func (r *Result) Keep() KeptResult {
	a := &r.answer
	usual := r.plan != nil && len(r.plan.Rates) == 1 && a.Allowed && a.Waits == nil && a.Due == 0 && a.Lent == 0 &&
		r.Source == a.Source && r.Cause == nil && r.ticket == 0 && r.each == nil && !r.ShadowDenied && !r.untaken
	if usual {
		return KeptResult{plan: r.plan, bucket: r.bucket, now: a.Now, cost: r.Cost, level: *a.Levels.At(0), source: a.Source, headers: r.headers}
	}
	whole := *r
	return KeptResult{whole: &whole}
}

// Result returns what was kept.
func (k *KeptResult) Result() (r Result) {
	switch {
	case k.whole != nil:
		return *k.whole
	case k.plan == nil:
		return Result{}
	}
	r.headers, r.bucket = k.headers, k.bucket
	r.answer.Allowed, r.answer.Now, r.answer.Source = true, k.now, k.source
	*r.answer.Levels.At(0) = k.level
	r.read(k.plan, k.cost, nil)
	return r
}
