package core

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// Charge is what one limiter takes in [AllowTogether].
type Charge struct {
	Limiter *Limiter
	Key     string
	Cost    int64 // how many requests it counts as; 0 means 1, but Units{Requests: 0} means none
	Units   Units // what it takes in other units; nil means nothing
}

// JointResult is the decision of several limiters on one request.
type JointResult struct {
	// Allowed reports whether all limiters allow the request. If so, all have taken its cost. If not, none has.
	Allowed bool

	// RetryAfter is the longest RetryAfter of Results: 0 if Allowed.
	RetryAfter time.Duration

	// Results are the decisions of the limiters, in the order of the charges. If the request is denied, a limiter whose
	// Result is Allowed had the tokens but took none.
	Results []Result

	charges []Charge
	shadow  []bool       // whether the limiter of a charge is in shadow mode
	ended   *atomic.Bool // it was undone or settled; nil: no limiter returned this
}

// Tightest returns the Result that constrains the client most: of a denied request the one with the longest RetryAfter, of an
// allowed one that with the fewest tokens left. Limiters that decided nothing (FromFailOpen) constrain least, and those in
// shadow mode less than all others.
func (j JointResult) Tightest() Result {
	order := j.Order()
	if len(order) == 0 {
		return Result{}
	}
	return j.Results[order[len(order)-1]]
}

// Order returns the indexes of Results, the one that constrains the client least first, and the tightest last.
func (j JointResult) Order() []int {
	order := make([]int, len(j.Results))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) int {
		switch {
		case !j.Results[i].Allowed:
			return 3
		case i < len(j.shadow) && j.shadow[i]:
			return 0
		case j.Results[i].plan == nil:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(j.Results[a].RetryAfter, j.Results[b].RetryAfter),
			cmp.Compare(j.Results[b].Remaining, j.Results[a].Remaining))
	})
	return order
}

// WriteHeaders writes the header fields of all limiters to h. RateLimit and RateLimit-Policy list the limits of all. Fields that
// have one value are those of the tightest limiter. Retry-After is the longest, and is left out if the request can never be
// allowed. Charges of one limiter for the same key are listed once. See [Result.WriteHeaders].
func (j JointResult) WriteHeaders(h HeaderWriter) {
	order := j.Order()
	for n, i := range order {
		if j.among(i, order[n+1:]) {
			continue
		}
		r := j.Results[i]
		if !r.Allowed {
			r.RetryAfter = j.RetryAfter
		}
		r.WriteHeaders(h)
	}
}

// Problem describes a denial, as [Problem] does: the limits of all limiters that lack tokens.
func (j JointResult) Problem() ProblemDetails {
	p := Problem(Result{})
	var listed []int
	for i, r := range j.Results {
		if !r.Allowed && !j.among(i, listed) {
			listed = append(listed, i)
			p.ViolatedPolicies = append(p.ViolatedPolicies, Problem(r).ViolatedPolicies...)
		}
	}
	return p
}

// among reports whether a charge has the limiter and key of one of others.
func (j *JointResult) among(charge int, others []int) bool {
	return len(j.charges) == len(j.Results) && slices.ContainsFunc(others, func(other int) bool {
		return j.charges[charge].Limiter == j.charges[other].Limiter && j.charges[charge].Key == j.charges[other].Key
	})
}

// Undo gives all limiters back what the request took. It is [Limiter.Undo] of each, one after another. A JointResult can be
// undone or settled once: after that it is [ErrSettled], also if some of the limiters got nothing back.
func (j JointResult) Undo(ctx context.Context) error {
	if err := j.end(ctx); err != nil {
		return err
	}
	var errs []error
	for i, c := range j.charges {
		errs = append(errs, c.Limiter.Undo(ctx, c.Key, j.Results[i]))
	}
	return errors.Join(errs...)
}

// Settle corrects what the request took, in all limiters that count the units. It is [Limiter.Settle] of each, one after
// another, so it costs a round trip for each. It changes nothing if a number is negative ([ErrCost]), if no limiter counts a
// unit ([ErrUnit]), or if the request was undone or settled before ([ErrSettled]).
func (j JointResult) Settle(ctx context.Context, units Units) error {
	if err := units.check(j.counts); err != nil {
		j.Unsettled(ctx, err)
		return err
	}
	if err := j.end(ctx); err != nil {
		return err
	}
	var errs []error
	for i, c := range j.charges {
		r := j.Results[i]
		if r.plan == nil {
			continue
		}
		its := maps.Clone(units)
		maps.DeleteFunc(its, func(unit string, _ int64) bool { return !r.plan.counts(unit) })
		errs = append(errs, c.Limiter.Settle(ctx, c.Key, r, its))
	}
	return errors.Join(errs...)
}

// end notes that j is undone or settled, and returns ErrSettled if it was before. While ctx has ended, nothing is sent.
func (j *JointResult) end(ctx context.Context) error {
	if j.Allowed && j.ended != nil && ctx.Err() == nil && !j.ended.CompareAndSwap(false, true) {
		return ErrSettled
	}
	return nil
}

// Unsettled tells the observers of each limiter that the request was not settled. See [Limiter.Unsettled].
func (j JointResult) Unsettled(ctx context.Context, why error) {
	for i, c := range j.charges {
		c.Limiter.Unsettled(ctx, c.Key, j.Results[i], why)
	}
}

// counts reports whether one of the limiters counts a unit, or did when it decided.
func (j *JointResult) counts(unit string) bool {
	for i, c := range j.charges {
		if p := j.Results[i].plan; c.Limiter.Counts("", unit) || p != nil && p.counts(unit) {
			return true
		}
	}
	return false
}
