package core

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/field"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// AllowTogether decides a request with several limiters, such as those of a
// user, of the user's organisation, and of everybody. Each has its own key and
// cost. If all have the tokens, all take them. Otherwise none does.
//
// With one MemoryStore, or one store on one Redis server, that is one atomic
// step, and one round trip to Redis. Buckets on different servers, as on a
// Cluster, or in different stores are asked one after another, in a fixed
// order, at a round trip each. If one denies, the tokens taken before are given
// back, for one more. So never too many requests are admitted, but another
// request may be denied meanwhile. Each takes at most its store's timeout.
//
// Charges of one limiter and key are one charge of the sum. But each of Results
// has its own share, to release, hold, settle or undo while the others go on. A
// store that is no [store.JointStore] takes the sum and then the shares: if
// others take what it needs in between, the request is denied. Charges of one
// bucket by several limiters of a policy are taken one after another, each
// under the limits of its own. A policy in shadow mode denies nothing, takes
// nothing if another limiter denies, and takes its tokens last.
//
// While a store is away, its limiters decide by their OnFailure; if it can't
// use one key, that of this key alone does, for a round trip more.
//
// Errors are those of AllowN, from any of the limiters. The tokens taken before
// are then given back; observers receive a failure to do so as
// [OutcomeUnsettled]. A call to Redis without an answer may have taken tokens.
// They refill with time.
func AllowTogether(ctx context.Context, charges ...Charge) (JointResult, error) {
	began := time.Now()
	participants, parts, err := join(ctx, charges)
	if err != nil {
		return JointResult{}, err
	}
	j := joint{participants: participants}
	if err := j.decide(ctx); err != nil {
		if p := j.failed; p.limiter.watch.active() && !mistaken(err) {
			p.limiter.report(ctx, p.now, &p.res, p.key, began, err)
		}
		return JointResult{}, err
	}
	res := JointResult{Allowed: !j.denied, Results: make([]Result, 0, len(parts))}
	ended := make([]uint32, len(parts))
	for i, c := range parts {
		p, r := c.participant, c.result()
		r.once = &ended[i]
		if j.denied && r.Allowed {
			r.untaken = true
		}
		if !r.Allowed {
			res.RetryAfter = max(res.RetryAfter, r.RetryAfter)
		}
		res.Results = append(res.Results, r)
		if p.limiter.watch.active() && (!j.denied || !r.Allowed) { // who took nothing for another's sake decided nothing
			p.limiter.report(ctx, p.now, &r, p.key, began, nil)
		}
	}
	return res, nil
}

// joint decides participants.
type joint struct {
	participants []*participant
	taken        []*participant // in the order of their decisions
	denied       bool
	failed       *participant // whose error decide returned
}

// decide decides all participants, who take all or nothing.
func (j *joint) decide(ctx context.Context) error {
	var order []*participant // in which they are asked
	for _, group := range j.groups() {
		if err := j.take(ctx, group); err != nil {
			j.giveBack(ctx)
			return err
		}
		order = append(order, group...)
	}
	if j.denied {
		j.giveBack(ctx)
	}
	for _, p := range j.participants {
		if p.now.policy.Shadow {
			if err := j.takeOne(ctx, p); err != nil {
				j.giveBack(ctx)
				return err
			}
			order = append(order, p)
		}
	}
	correct(order, j.denied)
	return nil
}

// groups returns the participants that deny, in the order in which they are
// asked, those of one store together. No two of a group are charges of one
// bucket.
func (j *joint) groups() (groups [][]*participant) {
	var order []*participant
	for _, p := range j.participants {
		if !p.now.policy.Shadow {
			order = append(order, p)
		}
	}
	slices.SortStableFunc(order, func(a, b *participant) int {
		return cmp.Or(cmp.Compare(a.now.policy.Name, b.now.policy.Name), cmp.Compare(a.key, b.key))
	})
	for _, p := range order {
		i := slices.IndexFunc(groups, func(group []*participant) bool {
			return group[0].store() == p.store() && !slices.ContainsFunc(group, p.sameBucket)
		})
		if i < 0 {
			groups = append(groups, []*participant{p})
			continue
		}
		groups[i] = append(groups[i], p)
	}
	return groups
}

// take decides the participants of a group, together if their store can.
func (j *joint) take(ctx context.Context, group []*participant) error {
	together, can := group[0].limiter.store.(store.JointStore)
	for can && len(group) > 1 && !j.denied {
		requests, asked := make([]request, len(group)), make([]store.Request, len(group))
		for i, p := range group {
			set := p.now.setOf(p.key)
			requests[i] = p.request
			requests[i].bindSet(p.now, set)
			requests[i].To(set.class, p.now.storedKey(p.key))
			asked[i] = requests[i].Request
		}
		for i := range requests { // behind all sums: see divided
			asked = append(asked, requests[i].divided()...)
		}
		answers, err := together.DoTogether(ctx, asked)
		if errors.Is(err, store.ErrApart) {
			break
		}
		for i, p := range group {
			p.limiter.noteUnits(p.now, p.now.setOf(p.key), &requests[i])
		}
		if err != nil {
			answers = slices.Repeat([]store.JointAnswer{{Err: err}}, len(asked))
		}
		if group, err = j.read(ctx, group, requests, answers, sharesOf(requests, answers)); err != nil {
			return err
		}
	}
	return j.takeEach(ctx, group)
}

// read takes in a store's answers to the requests of a group and to their
// shares. If the store could not answer some of them, their limiters' OnFailure
// decides those, and the store has taken nothing. read then returns the others,
// which must be asked again, unless the request is denied already.
func (j *joint) read(ctx context.Context, group []*participant, requests []request, answers []store.JointAnswer, shares [][]store.JointAnswer) (again []*participant, err error) {
	for i, p := range group {
		if answers[i].Err == nil {
			p.res = p.result()
			p.res.answer = answers[i].Answer
			p.res.fillFrom(p.now.setOf(p.key), &requests[i])
			j.denied = j.denied || !p.res.Allowed
			again = append(again, p)
		}
	}
	if len(again) == len(group) {
		if !j.denied {
			j.hold(group...)
			j.readShares(ctx, group, requests, answers, shares)
		}
		return nil, nil
	}
	for i, p := range group {
		if err := answers[i].Err; err != nil {
			r := requests[i]
			p.res = p.result()
			p.res.Cost, r.Dry = r.N, j.denied
			if err := p.limiter.onFailure(ctx, p.now, &p.res, &r, err); err != nil {
				j.failed = p
				return nil, err
			}
			j.note(p)
		}
	}
	if j.denied {
		return nil, nil
	}
	for _, p := range again {
		p.res = Result{}
	}
	return again, nil
}

// readShares takes in the answers to shares: a participant without all is denied.
func (j *joint) readShares(ctx context.Context, group []*participant, requests []request, answers []store.JointAnswer, shares [][]store.JointAnswer) {
	for i, p := range group {
		if a := p.limiter.whole(ctx, p.now, &requests[i], p.limiter.store, &answers[i], shares[i]); a != &answers[i] {
			p.res = p.result()
			p.res.answer = a.Answer
			p.res.fillFrom(p.now.setOf(p.key), &requests[i])
			j.denied = true
		}
	}
}

// takeEach decides participants one after another.
func (j *joint) takeEach(ctx context.Context, group []*participant) error {
	for _, p := range group {
		if err := j.takeOne(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// takeOne decides p alone. After a denial it takes nothing.
func (j *joint) takeOne(ctx context.Context, p *participant) error {
	r := p.request
	r.Dry = j.denied
	if err := p.limiter.decide(ctx, p.now, &p.res, &r); err != nil {
		j.failed = p
		return err
	}
	j.note(p)
	return nil
}

// note notes the decision of p.
func (j *joint) note(p *participant) {
	if !p.res.Allowed {
		j.denied = true
	} else if !j.denied {
		j.hold(p)
	}
}

// hold notes that participants took their tokens.
func (j *joint) hold(participants ...*participant) {
	for _, p := range participants {
		p.took = p.res.taken()
	}
	j.taken = append(j.taken, participants...)
}

// giveBack returns what was taken, and reports a failure to observers.
func (j *joint) giveBack(ctx context.Context) {
	for _, p := range j.taken {
		began := time.Now()
		if err := p.undo(context.WithoutCancel(ctx)); err != nil {
			p.limiter.unsettled(ctx, p.now, p.key, p.res.Source, began, err)
		}
		p.res.returned()
	}
	j.taken = nil
}

// Charge is what one limiter takes in [AllowTogether].
type Charge struct {
	Limiter *Limiter
	Key     string
	Cost    int64 // how many requests it counts as; 0 means 1, but Units{Requests: 0} means none
	Units   Units // what it takes in other units; nil means nothing
}

// JointResult is the decision of several limiters on one request.
type JointResult struct {
	// Allowed reports whether all limiters allow the request. If so, all have
	// taken its cost. If not, none has.
	Allowed bool

	// RetryAfter is the longest RetryAfter of Results: 0 if Allowed.
	RetryAfter time.Duration

	// Results are the decisions of the limiters, in the order of the charges.
	// If the request is denied, a limiter whose Result is Allowed had the
	// tokens but took none.
	Results []Result
}

// Tightest returns the Result that constrains the client most: of a denied
// request the one with the longest RetryAfter, of an allowed one that with the
// fewest tokens left. Limiters that decided nothing (FromFailOpen) constrain
// least, and those in shadow mode less than all others.
func (j JointResult) Tightest() Result {
	order := j.order()
	if len(order) == 0 {
		return Result{}
	}
	return j.Results[order[len(order)-1]]
}

// order returns the indexes of Results, the tightest last.
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
		case j.Results[i].set == nil:
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

// WriteHeaders writes the header fields of all limiters to h. RateLimit and
// RateLimit-Policy list the limits of all, in the draft of the first. Fields
// that have one value are those of the tightest limiter. Retry-After is the
// longest, and is left out if the request can never be allowed. Charges of one
// limiter for the same key are listed once. See [Result.WriteHeaders].
func (j JointResult) WriteHeaders(h http.Header) { j.writeHeaders(h) }

// writeHeaders is WriteHeaders for any kind of header.
func (j *JointResult) writeHeaders(h field.Header) {
	order, draft := j.order(), HeaderStyle(0)
	for i := range j.Results {
		if r := &j.Results[i]; draft == 0 && r.writesHeaders() {
			draft = r.headers.in(0) & drafts
		}
	}
	for n, i := range order {
		if j.among(i, order[n+1:]) {
			continue
		}
		r := j.Results[i]
		if r.headers = r.headers.in(draft); !r.Allowed {
			r.RetryAfter = j.RetryAfter
		}
		r.writeHeaders(new(field.Room), h)
	}
}

// Problem describes a denial, as [Problem] does: the limits of all limiters
// that lack tokens.
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

// Undo gives all limiters back what the request took. It is [Result.Undo] of
// each of Results, one after another, so it costs a round trip for each. A
// JointResult can be undone or settled once: after that it is [ErrSettled].
func (j JointResult) Undo(ctx context.Context) error {
	return j.each(func(r *Result) error { return r.Undo(ctx) })
}

// Settle corrects what the request took, in all limiters that count the units.
// It is [Result.Settle] of each of Results, one after another, so it costs a
// round trip for each. It changes nothing if a number is negative ([ErrCost]),
// if no limiter counts a unit ([ErrUnit]), or if the request was undone or
// settled before ([ErrSettled]).
func (j JointResult) Settle(ctx context.Context, units Units) error {
	if err := units.check(j.counts); err != nil {
		j.unsettled(ctx, err)
		return err
	}
	return j.each(func(r *Result) error {
		its := units
		if r.set != nil {
			its = maps.Clone(units)
			maps.DeleteFunc(its, func(unit string, _ int64) bool { return !r.set.counts(unit) })
		}
		return r.Settle(ctx, its)
	})
}

// Release gives back the slots that the request took: it is [Result.Release] of
// each of Results. If parts of the request end at different times, release
// their Results, each of which gives back its own slots.
func (j JointResult) Release(ctx context.Context) error {
	return j.each(func(r *Result) error { return r.Release(ctx) })
}

// Hold says that the work goes on: it is [Result.Hold] of each of Results that
// still holds something. [ErrSettled] means that none does.
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

// each calls end for each of Results. It returns ErrSettled only once.
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

// unsettled reports to observers that the request was not settled.
func (j *JointResult) unsettled(ctx context.Context, why error) {
	for i := range j.Results {
		j.Results[i].unsettled(ctx, why)
	}
}

// counts reports whether one of the limiters counts a unit, or did.
func (j *JointResult) counts(unit string) bool {
	return slices.ContainsFunc(j.Results, func(r Result) bool {
		return r.limiter != nil && (r.limiter.counts("", unit) || r.set != nil && r.set.counts(unit))
	})
}
