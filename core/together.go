package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// AllowTogether decides a request with several limiters, such as those of a user, of the user's organisation, and of everybody.
// Each has its own key and cost. If all have the tokens, all take them. Otherwise none does.
//
// With one MemoryStore, or one store on one Redis server, that is one atomic step, and one round trip to Redis. Where buckets
// are on different servers, as on a Cluster or a Ring, or in different stores, they are asked one after another, always in the
// same order. If one denies, the tokens taken before are given back. So never too many requests are admitted, but another
// request may be denied until the tokens are back. Each bucket then costs a round trip, and one more to give tokens back.
// Each takes at most its store's timeout. Observers receive tokens that could not be given back as [OutcomeUnsettled].
//
// While a store is away, its limiters decide by their OnFailure. A policy in shadow mode denies nothing, and takes nothing if
// another limiter denies. A bucket can be charged only once: two charges of one policy need different keys.
//
// Errors are those of AllowN, from any of the limiters. The tokens taken before are then given back. A call to Redis that got
// no answer in time, or whose context ended, may have taken tokens. They refill with time.
func AllowTogether(ctx context.Context, charges ...Charge) (JointResult, error) {
	began := time.Now()
	members, err := join(ctx, charges)
	if err != nil {
		return JointResult{}, err
	}
	j := joint{members: members}
	if err := j.decide(ctx); err != nil {
		if m := j.failed; m.limiter.watch.active() && !mistaken(err) {
			m.limiter.report(ctx, m.now, &m.res, m.key, began, err)
		}
		return JointResult{}, err
	}
	res := JointResult{Allowed: !j.denied, charges: slices.Clone(charges)}
	for _, m := range members {
		if j.denied && m.res.Allowed {
			m.res.untaken = true
		}
		if !m.res.Allowed {
			res.RetryAfter = max(res.RetryAfter, m.res.RetryAfter)
		}
		res.Results, res.shadow = append(res.Results, m.res), append(res.shadow, m.now.policy.Shadow)
		if m.limiter.watch.active() && (!j.denied || !m.res.Allowed) { // who took nothing for another's sake decided nothing
			m.limiter.report(ctx, m.now, &m.res, m.key, began, nil)
		}
	}
	return res, nil
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
		return nil, errors.New("ratelimit: AllowTogether: no charges given (RL614)")
	}
	var members []*member
	for i, c := range charges {
		if c.Limiter == nil || c.Limiter.rules.Load() == nil {
			return nil, fmt.Errorf("ratelimit: AllowTogether: charge %d has no limiter (RL614)", i)
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
		m.limiter.noteUnits(m.now, p, &r)
		for _, other := range members {
			if m.store() == other.store() && m.now.policy.Name == other.now.policy.Name && m.key == other.key {
				return nil, fmt.Errorf("ratelimit: AllowTogether: policy %q is charged twice for one key: add up the costs (RL614)", m.now.policy.Name)
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
		for i, m := range group {
			r := requests[i]
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

// giveBack returns what was taken. Observers receive a failure: what does not come back refills with time.
func (j *joint) giveBack(ctx context.Context) {
	for _, m := range j.taken {
		began := time.Now()
		if err := m.limiter.Undo(context.WithoutCancel(ctx), m.key, m.res); err != nil {
			m.limiter.unsettled(ctx, m.key, m.res.Source, began, err)
		}
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
