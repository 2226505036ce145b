package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// AllowTogether decides a request with several limiters, such as those of a
// user, of the user's organisation, and of everybody. Each has its own key and
// cost. If all have the tokens, all take them. Otherwise none does.
//
// The Result is that of all: Allowed, the longest delays, and the fewest tokens
// left. Its Parts are the decisions of the charges. Undo, Settle, Release and
// Hold of the Result are those of all parts, one after another; those of a part
// are its own. Charges of one limiter and key are one charge of the sum, and
// their parts are one decision.
//
// With one MemoryStore, or one store on one Redis server, that is one atomic
// step, and one round trip to Redis. Buckets on different servers, as on a
// Cluster, or in different stores are asked one after another, in a fixed
// order, at a round trip each. If one denies, the tokens taken before are given
// back, for one more. So never too many requests are admitted, but another
// request may be denied meanwhile. A policy in shadow mode denies nothing,
// takes nothing if another limiter denies, and takes its tokens last.
//
// While a store is away, its limiters decide by their OnFailure.
//
// All charges can have the same Units: each takes those that its limiter counts.
//
// Errors are those of AllowN, from any of the limiters, and a [ConfigError] for
// a charge without a limiter and for no charges. The tokens taken before
// are then given back; observers receive a failure to do so as
// [OutcomeUnsettled]. A call to Redis without an answer may have taken tokens.
// They refill with time.
func AllowTogether(ctx context.Context, charges ...Charge) (Result, error) {
	began := time.Now()
	j, err := join(ctx, charges)
	if err != nil {
		return Result{}, err
	}
	if err := j.decide(ctx); err != nil {
		if p := j.failed; p.limiter.watch.active() && !mistaken(err) {
			p.limiter.report(ctx, p.now, &p.res, p.key, began, err)
		}
		return Result{}, err
	}
	for _, p := range j.participants {
		p.res.once = new(uint32)
		p.res.untaken = p.res.untaken || j.denied && p.res.Allowed
		if p.limiter.watch.active() && (!j.denied || !p.res.Allowed) { // who took nothing for another's sake decided nothing
			p.limiter.report(ctx, p.now, &p.res, p.key, began, nil)
		}
	}
	parts := make([]Result, len(j.of))
	for i, p := range j.of {
		parts[i] = p.res
	}
	return together(parts), nil
}

// Charge is what one limiter takes in [AllowTogether].
type Charge struct {
	Limiter *Limiter
	Key     string
	Cost    int64 // how many requests it counts as; 0 means 1, but Units{Requests: 0} means none
	Units   Units // what it takes in other units, of those that its limiter counts; nil means nothing
	Floor   Units // what it leaves of the limits that it takes from: see [Limiter.AllowAbove]; of several charges of a key the most
}

// together returns the Result of parts: the tightest one's fields, and Parts.
func together(parts []Result) Result {
	res := Result{Allowed: true, Parts: parts}
	if order := res.order(); len(order) > 0 {
		res = parts[order[len(order)-1]]
	}
	res.Key, res.limiter, res.held, res.set, res.Parts = "", nil, nil, nil, parts
	res.Allowed, res.RetryAfter, res.ResetAfter = true, 0, 0
	for i := range parts {
		p := &parts[i]
		res.ResetAfter = max(res.ResetAfter, p.ResetAfter)
		if !p.Allowed {
			res.Allowed, res.RetryAfter = false, max(res.RetryAfter, p.RetryAfter)
		}
	}
	return res
}

// joint decides participants.
type joint struct {
	participants []*participant
	of           []*participant // of each charge
	taken        []*participant // in the order of their decisions
	denied       bool
	failed       *participant // whose error decide returned
}

// participant is all that one limiter takes of one key, while it is decided.
type participant struct {
	limiter *Limiter
	now     *compiled
	key     string
	request request // the sum of its charges
	res     Result
}

// join checks charges, and returns their participants.
func join(ctx context.Context, charges []Charge) (*joint, error) {
	if len(charges) == 0 {
		return nil, configError("AllowTogether charges", 0, "charges: at least one is required")
	}
	j := &joint{}
	for i := range charges {
		p := j.participant(&charges[i])
		if p == nil {
			return nil, configError("AllowTogether charges["+strconv.Itoa(i)+"].Limiter", nil, "must be a limiter from NewLimiter")
		}
		if j.of = append(j.of, p); !slices.Contains(j.participants, p) {
			j.participants = append(j.participants, p)
		}
	}
	for i, p := range j.of {
		c := &charges[i]
		if err := c.Units.check(j.counts); err != nil {
			return nil, err
		}
		if err := c.Floor.check(j.counts); err != nil {
			return nil, fmt.Errorf("floor: %w", err)
		}
		r := c.request()
		r.units, r.floor = r.units.of(p.now.counts), r.floor.of(p.now.counts)
		asked := r
		if r.bindSet(p.now, p.now.setOf(c.Key)); c.Cost < 0 {
			r.N = c.Cost
		}
		if err := r.check(ctx, p.now); err != nil {
			return nil, fmt.Errorf("policy %q: %w", p.now.policy.Name, err)
		}
		if p.request.key != "" { // another charge of the same limiter and key
			asked = p.request.plus(&asked, p.now.counts(Requests))
		}
		p.request = asked
	}
	return j, nil
}

// counts reports whether one of the limiters counts a unit.
func (j *joint) counts(unit string) bool {
	return slices.ContainsFunc(j.participants, func(p *participant) bool { return p.now.counts(unit) })
}

// participant returns the one that c is a charge of, or else a new one; nil if c
// has no limiter from a constructor. All participants of a limiter have the same
// policy.
func (j *joint) participant(c *Charge) *participant {
	if c.Limiter == nil || c.Limiter.shared == nil {
		return nil
	}
	var now *compiled
	for _, p := range j.participants {
		if p.limiter == c.Limiter {
			if p.key == c.Key {
				return p
			}
			now = p.now
		}
	}
	if now == nil {
		now = c.Limiter.current()
	}
	return &participant{limiter: c.Limiter, now: now, key: c.Key}
}

// request returns what c asks for.
func (c *Charge) request() request {
	r := request{key: c.Key, units: c.Units, floor: c.Floor, Request: store.Request{Request: bucket.Request{N: c.Cost}}}
	if c.Units != nil && c.Cost != 0 {
		r.units = maps.Clone(c.Units)
		if _, given := c.Units[Requests]; !given {
			r.units[Requests] = c.Cost
		}
	} else if c.Units == nil && c.Cost == 0 {
		r.N = 1
	}
	return r
}

// plus returns the request for what r and o ask together.
func (r *request) plus(o *request, requests bool) request {
	sum := *r
	if o.floor != nil {
		sum.floor = maps.Clone(o.floor)
		for unit, n := range r.floor {
			sum.floor[unit] = max(sum.floor[unit], n)
		}
	}
	if r.units == nil && o.units == nil {
		sum.N = saturated(r.N, o.N)
		return sum
	}
	sum.units = Units{}
	for _, units := range []Units{r.inUnits(requests), o.inUnits(requests)} {
		for unit, n := range units {
			sum.units[unit] = saturated(sum.units[unit], n)
		}
	}
	return sum
}

// inUnits returns what r asks for, with the request that need not be mentioned.
func (r *request) inUnits(requests bool) Units {
	if r.units == nil {
		return Units{Requests: r.N}
	}
	if !requests {
		return r.units
	}
	units := maps.Clone(r.units)
	units[Requests] = r.units.requests()
	return units
}

// saturated returns a+b, or the largest number.
func saturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// decide decides all participants, who take all or nothing.
func (j *joint) decide(ctx context.Context) error {
	for _, group := range j.groups() {
		if err := j.take(ctx, group); err != nil {
			j.giveBack(ctx)
			return err
		}
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
		}
	}
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

// store identifies the store of p's limiter.
func (p *participant) store() any {
	if reflect.TypeOf(p.limiter.store).Comparable() {
		return p.limiter.store
	}
	return p // like no other
}

// sameBucket reports whether p and o are charges of one bucket.
func (p *participant) sameBucket(o *participant) bool {
	return p.store() == o.store() && p.now.policy.Name == o.now.policy.Name && store.Key(p.key) == store.Key(o.key)
}

// take decides the participants of a group, together if their store can.
func (j *joint) take(ctx context.Context, group []*participant) error {
	joint, can := group[0].limiter.store.(store.JointStore)
	if !can || len(group) == 1 || j.denied {
		return j.takeEach(ctx, group)
	}
	requests := make([]store.Request, len(group))
	for i, p := range group {
		set := p.now.setOf(p.key)
		p.request.bindSet(p.now, set)
		p.request.To(set.class, store.Key(p.key))
		requests[i] = p.request.Request
		if set.slots != nil {
			if err := p.limiter.waitForReleases(ctx, p.now.policy.Name, p.key); err != nil {
				j.failed = p
				return err
			}
		}
	}
	answers, err := joint.DoTogether(ctx, requests)
	if errors.Is(err, store.ErrApart) {
		return j.takeEach(ctx, group)
	}
	for i, p := range group {
		set := p.now.setOf(p.key)
		p.limiter.noteUnits(p.now, set, &p.request)
		p.res = Result{limiter: p.limiter, Key: p.key, headers: p.now.policy.Headers, Cost: p.request.N}
		if err != nil {
			r := p.request
			r.Dry = j.denied
			if err := p.limiter.onFailure(ctx, p.now, &p.res, &r, err); err != nil {
				j.failed = p
				return err
			}
			j.note(p)
			continue
		}
		p.res.answer = answers[i]
		p.res.fillFrom(set, &p.request)
		j.denied = j.denied || !p.res.Allowed
	}
	if err == nil && !j.denied {
		j.taken = append(j.taken, group...)
	}
	return nil
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
		j.taken = append(j.taken, p)
	}
}

// giveBack returns what was taken, and reports a failure to observers.
func (j *joint) giveBack(ctx context.Context) {
	for _, p := range j.taken {
		if !p.res.taken() {
			continue
		}
		began := time.Now()
		if err := p.res.undo(context.WithoutCancel(ctx)); err != nil {
			p.limiter.unsettled(ctx, p.now, p.key, p.res.Source, began, err)
		}
		p.res.returned()
	}
	j.taken = nil
}

// returned has r tell the state of its bucket after its tokens came back.
func (r *Result) returned() {
	r.untaken = true
	r.answer.Levels.Unshare()
	for i := range r.set.Rates {
		l := r.answer.Levels.At(i)
		l.Units = min(r.set.Rates[i].Full, l.Units+r.costOf(i)*r.set.Rates[i].Unit)
	}
	r.ResetAfter = 0
	r.read(r.set, r.Cost, r.each)
}

// order returns the indexes of r's Parts, the tightest last: of a denied
// request the one with the longest RetryAfter, of an allowed one that with the
// fewest tokens left. Limiters that decided nothing (FromFailOpen) constrain
// least, and those in shadow mode less than all others.
func (r *Result) order() []int {
	order := make([]int, len(r.Parts))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) int {
		switch {
		case !r.Parts[i].Allowed:
			return 3
		case r.Parts[i].inShadow:
			return 0
		case r.Parts[i].set == nil:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(r.Parts[a].RetryAfter, r.Parts[b].RetryAfter),
			cmp.Compare(r.Parts[b].Remaining, r.Parts[a].Remaining))
	})
	return order
}

// writeParts writes the header fields of all parts. RateLimit and
// RateLimit-Policy list the limits of all, in the draft of the first. Fields
// that have one value are those of the tightest limiter. Charges of one limiter
// for the same key are listed once.
func (r *Result) writeParts(h HeaderWriter) {
	order, draft := r.order(), HeaderStyle(0)
	for i := range r.Parts {
		if p := &r.Parts[i]; draft == 0 && p.writesHeaders() {
			draft = p.headers.in(0) & drafts
		}
	}
	for n, i := range order {
		if r.among(i, order[n+1:]) {
			continue
		}
		p := r.Parts[i]
		if p.headers = p.headers.in(draft); !p.Allowed {
			p.RetryAfter = r.RetryAfter
		}
		p.writeHeaders(new(field.Room), h)
	}
}

// problemOfParts describes a denial: the limits of all parts that lack tokens.
func (r *Result) problemOfParts() ProblemDetails {
	p := ProblemDetails{Type: quotaExceeded, Title: quotaExceededTitle, Status: http.StatusTooManyRequests}
	var listed []int
	for i := range r.Parts {
		if part := r.Parts[i]; !part.Allowed && !r.among(i, listed) {
			listed = append(listed, i)
			its := Problem(part)
			p.ViolatedPolicies = append(p.ViolatedPolicies, its.ViolatedPolicies...)
			if its.Type != quotaExceeded {
				p.Type, p.Title = its.Type, its.Title
			}
		}
	}
	return p
}

// limitsOfParts is Limits of all parts.
func (r *Result) limitsOfParts() (list []LimitResult) {
	var listed []int
	for i := range r.Parts {
		if !r.among(i, listed) {
			listed = append(listed, i)
			list = append(list, r.Parts[i].Limits()...)
		}
	}
	return list
}

// among reports whether a part is of the limiter and key of one of others.
func (r *Result) among(part int, others []int) bool {
	p := &r.Parts[part]
	return p.limiter != nil && slices.ContainsFunc(others, func(other int) bool {
		return p.limiter == r.Parts[other].limiter && p.Key == r.Parts[other].Key
	})
}
