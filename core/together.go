package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// Charge is what one limiter takes in [AllowTogether].
type Charge struct {
	Limiter *Limiter
	Key     string
	Cost    int64 // requests; 0 means 1, and Units{Requests: 0} means none
	Units   Units // what else it takes: see Units
}

// JointResult is the decision of several limiters on one request.
type JointResult struct {
	// Allowed reports whether all limiters allow the request. If so, all have taken its cost. If not, none has.
	Allowed bool

	// RetryAfter is the longest RetryAfter of Results: 0 if Allowed.
	RetryAfter time.Duration

	// Results are the limiters' own, in the order of the charges. If the request is denied, those with Allowed have the
	// tokens but took none.
	Results []Result

	charges []Charge
	shadow  []bool // whether the limiter of a charge is in shadow mode
}

// AllowTogether takes from several limiters, each with its own key and cost, if all have the tokens, and nothing from any if
// not: a user, the organisation, and everybody.
//
// If all limiters have one store on one server, or one MemoryStore, that is one atomic step, and one round trip to Redis. Buckets
// on different servers, as on a Cluster or a Ring, and those of different stores are asked one after another, in the same
// order whoever asks. If one denies, what was taken before is given back. So never too many requests are admitted, but
// until it is given back another one may be denied that could have been admitted. Each bucket then costs a round trip, and
// one more to give back.
//
// Limiters that have no decision decide by their own OnFailure. A policy in shadow mode denies nothing, and takes nothing
// if another limiter denies. Errors are those of AllowN, of any of the limiters; then nothing is taken. The same bucket may be charged
// only once: two charges of one policy need different keys.
func AllowTogether(ctx context.Context, charges ...Charge) (JointResult, error) {
	began := time.Now()
	members, err := join(ctx, charges)
	if err != nil {
		return JointResult{}, err
	}
	j := joint{members: members}
	if err := j.decide(ctx); err != nil {
		if m := j.failed; m.limiter.watch.active() && !mistaken(err) {
			m.limiter.watch.report(ctx, m.now.policy.Name, m.now.planOf(m.key).LeastCapacity(), &m.res, m.key, time.Since(began), err)
		}
		return JointResult{}, err
	}
	res := JointResult{Allowed: !j.denied, charges: charges}
	for _, m := range members {
		if j.denied && m.res.Allowed {
			m.res.untaken = true
		}
		if !m.res.Allowed {
			res.RetryAfter = max(res.RetryAfter, m.res.RetryAfter)
		}
		res.Results, res.shadow = append(res.Results, m.res), append(res.shadow, m.now.policy.Shadow)
		if w := &m.limiter.watch; w.active() && (!j.denied || !m.res.Allowed) { // who took nothing for another's sake decided nothing
			w.report(ctx, m.now.policy.Name, m.now.planOf(m.key).LeastCapacity(), &m.res, m.key, time.Since(began), nil)
		}
	}
	return res, nil
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
		case j.shadow[i]:
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

// WriteHeaders writes the header fields of all limiters to h: members of lists for each, fields of one value of the tightest,
// and the longest Retry-After, or none if the request can never be allowed. See [Result.WriteHeaders].
func (j JointResult) WriteHeaders(h HeaderWriter) {
	for _, i := range j.Order() {
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
	for _, r := range j.Results {
		if !r.Allowed {
			p.ViolatedPolicies = append(p.ViolatedPolicies, Problem(r).ViolatedPolicies...)
		}
	}
	return p
}

// Undo returns what the request took, to all limiters. It is [Limiter.Undo] of each.
func (j JointResult) Undo(ctx context.Context) error {
	var errs []error
	for i, r := range j.Results {
		errs = append(errs, j.charges[i].Limiter.Undo(ctx, j.charges[i].Key, r))
	}
	return errors.Join(errs...)
}

// Settle corrects what the request took, in all limiters that count the units. It is [Limiter.Settle] of each. It changes
// nothing if a number is negative ([ErrCost]), or if no limiter counts a unit ([ErrUnit]).
func (j JointResult) Settle(ctx context.Context, units Units) error {
	for _, unit := range slices.Sorted(maps.Keys(units)) {
		if units[unit] < 0 {
			return fmt.Errorf("%w: %d %s", ErrCost, units[unit], clip(unit, maxName))
		}
		if unit != Requests && !j.counts(unit) {
			return fmt.Errorf("%w: %s", ErrUnit, strconv.Quote(clip(unit, maxName)))
		}
	}
	var errs []error
	for i, r := range j.Results {
		if r.plan == nil {
			continue
		}
		its := maps.Clone(units)
		maps.DeleteFunc(its, func(unit string, _ int64) bool { return !r.plan.counts(unit) })
		errs = append(errs, j.charges[i].Limiter.Settle(ctx, j.charges[i].Key, r, its))
	}
	return errors.Join(errs...)
}

// counts reports whether one of the limiters counts a unit, or did when it decided.
func (j *JointResult) counts(unit string) bool {
	for i, r := range j.Results {
		if j.charges[i].Limiter.Counts("", unit) || r.plan != nil && r.plan.counts(unit) {
			return true
		}
	}
	return false
}

// Counts reports whether a limit of key counts a unit. For the empty key, which no request has, it reports whether a limit of
// any key does.
func (l *Limiter) Counts(key, unit string) bool {
	now := l.rules.Load()
	if key == "" {
		return now.counts(unit)
	}
	return now.planOf(key).counts(unit)
}

// member is one charge while it is decided.
type member struct {
	limiter *Limiter
	now     *rules
	key     string
	request Request
	res     Result
}

// join checks charges and returns their members, in their order.
func join(ctx context.Context, charges []Charge) ([]*member, error) {
	if len(charges) == 0 {
		return nil, errors.New("ratelimit: AllowTogether: no charges given")
	}
	var members []*member
	for i, c := range charges {
		if c.Limiter == nil {
			return nil, fmt.Errorf("ratelimit: AllowTogether: charge %d has no limiter", i)
		}
		m := &member{limiter: c.Limiter, now: c.Limiter.rules.Load(), key: c.Key}
		m.request = Request{key: c.Key, units: c.Units, Request: bucket.Request{N: c.Cost}}
		if c.Units != nil && c.Cost != 0 {
			m.request.units = maps.Clone(c.Units)
			if _, given := c.Units[Requests]; !given {
				m.request.units[Requests] = c.Cost
			}
		} else if c.Units == nil && c.Cost == 0 {
			m.request.N = 1
		}
		p := m.now.planOf(c.Key)
		r := m.request
		r.under(p)
		if c.Cost < 0 {
			r.N = c.Cost
		}
		if err := r.check(ctx, m.now); err != nil {
			return nil, fmt.Errorf("policy %q: %w", m.now.policy.Name, err)
		}
		for _, other := range members {
			if m.store() == other.store() && m.now.policy.Name == other.now.policy.Name && m.key == other.key {
				return nil, fmt.Errorf("ratelimit: AllowTogether: policy %q is charged twice for one key: add up the costs", m.now.policy.Name)
			}
		}
		members = append(members, m)
	}
	return members, nil
}

// store identifies the store of m's limiter.
func (m *member) store() any {
	if reflect.TypeOf(m.limiter.store).Comparable() {
		return m.limiter.store
	}
	return m // like no other
}

// joint decides members.
type joint struct {
	members []*member
	taken   []*member // in the order of their decisions
	denied  bool
	failed  *member // whose error decide returned
}

// decide decides all members. If one denies, or the error is not nil, nothing is taken.
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
	for _, m := range j.members {
		if m.now.policy.Shadow {
			if err := j.takeOne(ctx, m); err != nil {
				j.giveBack(ctx)
				return err
			}
		}
	}
	return nil
}

// groups returns the members that deny, in the order in which they are asked, those of one store together.
func (j *joint) groups() (groups [][]*member) {
	var order []*member
	for _, m := range j.members {
		if !m.now.policy.Shadow {
			order = append(order, m)
		}
	}
	slices.SortStableFunc(order, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.now.policy.Name, b.now.policy.Name), cmp.Compare(a.key, b.key))
	})
	byStore := make(map[any]int)
	for _, m := range order {
		if i, known := byStore[m.store()]; known {
			groups[i] = append(groups[i], m)
			continue
		}
		byStore[m.store()] = len(groups)
		groups = append(groups, []*member{m})
	}
	return groups
}

// take decides the members of a group, together if their store can.
func (j *joint) take(ctx context.Context, group []*member) error {
	store, can := group[0].limiter.store.(JointStore)
	if !can || len(group) == 1 || j.denied {
		return j.takeEach(ctx, group)
	}
	requests := make([]Request, len(group))
	for i, m := range group {
		r := m.request
		r.under(m.now.planOf(m.key))
		r.key = boundedKey(m.key)
		requests[i] = r
	}
	answers, err := store.DoTogether(ctx, requests)
	switch {
	case errors.Is(err, ErrApart):
		return j.takeEach(ctx, group)
	case err != nil:
		for _, m := range group {
			r := requests[slices.Index(group, m)]
			m.res.headers, m.res.Cost, r.Dry = m.now.policy.Headers, r.N, j.denied
			if err := m.limiter.onFailure(ctx, m.now, &m.res, &r, m.key, err); err != nil {
				j.failed = m
				return err
			}
			j.note(m)
		}
		return nil
	}
	for i, m := range group {
		m.res.answer, m.res.headers = answers[i], m.now.policy.Headers
		m.res.readOf(m.now.planOf(m.key), &requests[i])
		j.denied = j.denied || !m.res.Allowed
	}
	if !j.denied {
		j.taken = append(j.taken, group...)
	}
	return nil
}

// takeEach decides members one after another.
func (j *joint) takeEach(ctx context.Context, group []*member) error {
	for _, m := range group {
		if err := j.takeOne(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// takeOne decides m alone. After a denial it takes nothing.
func (j *joint) takeOne(ctx context.Context, m *member) error {
	r := m.request
	r.Dry = j.denied
	if err := m.limiter.decide(ctx, m.now, &m.res, &r); err != nil {
		j.failed = m
		return err
	}
	j.note(m)
	return nil
}

// note notes the decision of m.
func (j *joint) note(m *member) {
	if !m.res.Allowed {
		j.denied = true
	} else if !j.denied {
		j.taken = append(j.taken, m)
	}
}

// giveBack returns what was taken. Its errors are dropped: what does not come back refills with time.
func (j *joint) giveBack(ctx context.Context) {
	for _, m := range j.taken {
		_ = m.limiter.Undo(context.WithoutCancel(ctx), m.key, m.res)
		m.res.returned()
	}
	j.taken = nil
}

// returned has r tell the state of its bucket after its tokens came back.
func (r *Result) returned() {
	if !r.taken() {
		return
	}
	r.untaken = true
	r.answer.Levels.Unshare()
	for i := range r.plan.Rates {
		r.answer.AddTo(r.plan.Plan, i, r.costOf(i))
	}
	allowed, source, cause := r.Allowed, r.Source, r.Cause
	r.RetryAfter, r.ResetAfter = 0, 0
	r.read(r.plan, r.Cost, r.each)
	r.Allowed, r.Source, r.Cause = allowed, source, cause
}
