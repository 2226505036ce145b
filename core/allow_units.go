package core

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// AllowUnits takes units from key's bucket if every limit has them, and nothing otherwise. Result.Cost is the number of
// requests, by default 1. Errors and cost are those of AllowN, and [ErrUnit] for a unit that no limit of the policy counts.
// It allocates the list of what it takes.
func (l *Limiter) AllowUnits(ctx context.Context, key string, units Units) (res Result, err error) {
	r := Request{key: key, Request: bucket.Request{N: 1}, units: units}
	err = l.take(ctx, l.rules.Load(), &res, &r)
	return res, err
}

// AllowAtMost takes as many tokens as every limit that counts requests has, up to most. Result.Cost is how many. It denies
// only if there is none: then Cost is 0, and RetryAfter is the time until there is one. Tokens on lease in another
// process are not there. A policy in shadow mode does not deny, but Cost tells what was there. Errors and cost are those
// of AllowN.
func (l *Limiter) AllowAtMost(ctx context.Context, key string, most int64) (res Result, err error) {
	r := Request{key: key, Request: bucket.Request{N: most}}
	if most > 0 {
		r.Action, r.N, r.More = bucket.AtMost, 1, most-1
	}
	err = l.take(ctx, l.rules.Load(), &res, &r)
	return res, err
}
