package core

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// Requests is the unit of limits that name none.
const Requests = "requests"

// Units is what a request takes, by the unit: {"tokens": 1200} is 1 request and 1,200 tokens. A request counts as one unless
// Units says otherwise: {Requests: 0, "tokens": 1200} takes tokens alone. A unit takes its number from every limit that
// counts it.
type Units map[string]int64

// ErrUnit is the error of a unit that no limit of the policy counts.
var ErrUnit = errors.New("no limit counts this unit")

// unit is what l counts.
func (l Limit) unit() string {
	if l.Unit == "" {
		return Requests
	}
	return l.Unit
}

// otherUnit reports whether l counts something else than requests.
func (l Limit) otherUnit() bool { return l.unit() != Requests }

// AllowUnits takes units from key's bucket if every limit has them, and nothing otherwise. Result.Cost is the number of
// requests, by default 1. Errors and cost are those of AllowN, and [ErrUnit] for a unit that no limit of the policy counts.
// It allocates the list of what it takes.
func (l *Limiter) AllowUnits(ctx context.Context, key string, units Units) (res Result, err error) {
	r := Request{key: key, Request: bucket.Request{N: 1}, units: units}
	err = l.take(ctx, &res, &r)
	return res, err
}

// AllowAtMost takes as many tokens as every limit that counts requests has, up to most. Result.Cost is how many. It denies
// only if there is none: then Cost is 0, and RetryAfter is the time until there is one. Tokens on lease in this or another
// process are not there. Errors and cost are those of AllowN.
func (l *Limiter) AllowAtMost(ctx context.Context, key string, most int64) (res Result, err error) {
	r := Request{key: key, Request: bucket.Request{N: most}}
	if most > 0 {
		r.Action, r.N, r.More = bucket.AtMost, 1, most-1
	}
	err = l.take(ctx, &res, &r)
	return res, err
}

// requests is how many requests u counts as.
func (u Units) requests() int64 {
	if n, given := u[Requests]; given {
		return n
	}
	return 1
}

// check returns what is wrong with u for limits of p.
func (u Units) check(p *plan) error {
	for _, unit := range slices.Sorted(maps.Keys(u)) {
		if u[unit] < 0 {
			return fmt.Errorf("%w: %d %s", ErrCost, u[unit], unit)
		}
		if unit != Requests && !p.counts(unit) {
			return fmt.Errorf("%w: %s", ErrUnit, strconv.Quote(clip(unit, maxName)))
		}
	}
	return nil
}

// counts reports whether a limit of p counts a unit.
func (p *plan) counts(unit string) bool {
	return slices.ContainsFunc(p.limits, func(l Limit) bool { return l.unit() == unit })
}

// each is what u takes from each limit of p.
func (u Units) each(p *plan) *[]int64 {
	list := make([]int64, len(p.limits))
	for i, l := range p.limits {
		if unit := l.unit(); unit == Requests {
			list[i] = u.requests()
		} else {
			list[i] = u[unit]
		}
	}
	return &list
}
