package core

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
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
}

// Tightest returns the Result that constrains the client most: of a denied request the one with the longest RetryAfter, of an
// allowed one that with the fewest tokens left. Limiters that decided nothing (FromFailOpen) constrain least, and those in
// shadow mode less than all others.
func (j JointResult) Tightest() Result {
	order := j.order()
	if len(order) == 0 {
		return Result{}
	}
	return j.Results[order[len(order)-1]]
}

// order returns the indexes of Results, the one that constrains the client least first, and the tightest last.
func (j *JointResult) order() []int {
	order := make([]int, len(j.Results))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) int {
		switch {
		case !j.Results[i].Allowed:
			return 3
		case j.Results[i].inShadow:
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
	order := j.order()
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

// among reports whether a decision is of the limiter and key of one of others.
func (j *JointResult) among(result int, others []int) bool {
	r := &j.Results[result]
	return r.limiter != nil && slices.ContainsFunc(others, func(other int) bool {
		return r.limiter == j.Results[other].limiter && r.key == j.Results[other].key
	})
}

// Undo gives all limiters back what the request took. It is [Result.Undo] of each of Results, one after another, so it costs a
// round trip for each. A JointResult can be undone or settled once: after that it is [ErrSettled].
func (j JointResult) Undo(ctx context.Context) error {
	return j.each(func(r *Result) error { return r.Undo(ctx) })
}

// Settle corrects what the request took, in all limiters that count the units. It is [Result.Settle] of each of Results, one
// after another, so it costs a round trip for each. It changes nothing if a number is negative ([ErrCost]), if no limiter counts
// a unit ([ErrUnit]), or if the request was undone or settled before ([ErrSettled]).
func (j JointResult) Settle(ctx context.Context, units Units) error {
	if err := units.check(j.counts); err != nil {
		j.unsettled(ctx, err)
		return err
	}
	return j.each(func(r *Result) error {
		its := units
		if r.plan != nil {
			its = maps.Clone(units)
			maps.DeleteFunc(its, func(unit string, _ int64) bool { return !r.plan.counts(unit) })
		}
		return r.Settle(ctx, its)
	})
}

// Release gives back the slots that the request took: it is [Result.Release] of each of Results. If parts of the request end at
// different times, release their Results, each of which gives back its own slots.
func (j JointResult) Release(ctx context.Context) error {
	return j.each(func(r *Result) error { return r.Release(ctx) })
}

// Hold says that the work goes on: it is [Result.Hold] of each of Results that still holds something. [ErrSettled] means that none does.
func (j JointResult) Hold(ctx context.Context) error {
	var holds bool
	var ended error
	err := j.each(func(r *Result) error {
		err := r.Hold(ctx)
		if errors.Is(err, ErrSettled) {
			ended = err
			return nil
		}
		holds = holds || r.held != nil && r.taken()
		return err
	})
	if err == nil && !holds {
		return ended
	}
	return err
}

// each calls end for each of Results. It returns ErrSettled once, however many of them return it.
func (j *JointResult) each(end func(*Result) error) error {
	if len(j.Results) == 0 {
		return ErrNoDecision
	}
	var errs []error
	for i := range j.Results {
		if err := end(&j.Results[i]); !errors.Is(err, ErrSettled) || !slices.Contains(errs, err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// unsettled tells the observers of each limiter that the request was not settled, and why.
func (j *JointResult) unsettled(ctx context.Context, why error) {
	for i := range j.Results {
		j.Results[i].unsettled(ctx, why)
	}
}

// counts reports whether one of the limiters counts a unit, or did when it decided.
func (j *JointResult) counts(unit string) bool {
	return slices.ContainsFunc(j.Results, func(r Result) bool {
		return r.limiter != nil && (r.limiter.counts("", unit) || r.plan != nil && r.plan.counts(unit))
	})
}
