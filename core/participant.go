package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// participant is all that one limiter takes of one key, while it is decided.
type participant struct {
	limiter *Limiter
	now     *compiled
	key     string
	request request // the sum of its charges
	took    bool    // it took tokens, though they may have been given back
	res     Result
}

// charge is one of a participant's charges.
type charge struct {
	*participant
	request *request
}

// join checks charges, and returns their participants and parts.
func join(ctx context.Context, charges []Charge) (participants []*participant, parts []charge, err error) {
	if len(charges) == 0 {
		return nil, nil, ErrNoCharges
	}
	for i, c := range charges {
		p := participantOf(participants, &c)
		if p == nil {
			return nil, nil, fmt.Errorf("%w: charge %d", ErrNoLimiter, i)
		}
		request := c.request()
		r := request
		r.bindSet(p.now, p.now.setOf(c.Key))
		if c.Cost < 0 {
			r.N = c.Cost
		}
		if err := r.check(ctx, p.now); err != nil {
			return nil, nil, fmt.Errorf("policy %q: %w", p.now.policy.Name, err)
		}
		if parts = append(parts, charge{p, &request}); slices.Contains(participants, p) {
			p.request = p.request.plus(&request, p.now.counts(Requests))
			continue
		}
		p.request = request
		p.request.parts = append(p.request.parts, &request)
		participants = append(participants, p)
	}
	return participants, parts, nil
}

// participantOf returns the one of participants that c is a charge of, or else
// a new one. It returns nil if c has no limiter from a constructor. All
// participants of a limiter have the same policy.
func participantOf(participants []*participant, c *Charge) *participant {
	if c.Limiter == nil || c.Limiter.shared == nil {
		return nil
	}
	var now *compiled
	for _, p := range participants {
		switch {
		case p.limiter != c.Limiter:
		case p.key == c.Key:
			return p
		default:
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
	r := request{key: c.Key, units: c.Units, Request: store.Request{Request: bucket.Request{N: c.Cost}}}
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
	sum.parts = append(sum.parts, o)
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

// result returns the decision on a part, with the delays of the sum.
func (c *charge) result() Result { return c.resultOf(c.request) }

// resultOf returns the decision on one of p's charges.
func (p *participant) resultOf(own *request) Result {
	r := p.res
	if len(p.request.parts) == 1 {
		return r
	}
	if r.set == nil { // nobody decided
		r.Cost = own.N
		return r
	}
	r.keepDelays()
	if r.Cost, r.each = own.N, own.Each; r.held != nil {
		r.held = newHeld(r.set, own.Ticket, r.held.began, r.Cost, r.each)
	}
	return r
}

// undo returns what each of p's charges took.
func (p *participant) undo(ctx context.Context) error {
	var errs []error
	for _, own := range p.request.parts {
		r := p.resultOf(own)
		errs = append(errs, r.undo(ctx, p.now))
	}
	return errors.Join(errs...)
}

// result returns a Result for p's decision.
func (p *participant) result() Result {
	return Result{limiter: p.limiter.lasting(), key: p.key, headers: p.now.policy.Headers}
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
	return p.store() == o.store() && p.now.policy.Name == o.now.policy.Name && p.key == o.key
}

// returned has r tell the state of its bucket after its tokens came back.
func (r *Result) returned() {
	if !r.taken() {
		return
	}
	r.untaken = true
	r.answer.Levels.Unshare()
	for i := range r.set.Rates {
		r.answer.AddTo(r.set.LimitSet, i, r.costOf(i))
	}
	r.readAgain()
}

// correct has participants of one bucket, which were asked in this order, tell
// its state after all of them. If the request is denied, what they took has come
// back, before those in shadow mode were asked; and each of them is denied as
// long as the bucket lacks what all of them ask.
func correct(order []*participant, denied bool) {
	peers := make(map[*participant][]*participant) // of participants that are not in shadow mode
	for i, p := range order {
		for k, o := range order {
			if k == i || !o.sharesLevels(p) {
				continue
			}
			shadow := p.now.policy.Shadow || o.now.policy.Shadow
			switch {
			case !denied && k > i && o.took:
				p.res.add(o, -1)
			case denied && !shadow && k < i && o.took:
				p.res.keepDelays()
				p.res.add(o, 1)
			}
			if denied && !shadow {
				peers[p] = append(peers[p], o)
			}
		}
	}
	for p, others := range peers {
		p.denyUnder(others)
	}
}

// sharesLevels reports whether the same store decided p and o, by one bucket.
func (p *participant) sharesLevels(o *participant) bool {
	return p.sameBucket(o) && p.res.set != nil && o.res.set != nil && p.res.Source != FromFallback && o.res.Source != FromFallback
}

// add adds to r's levels so many times what p took of the same limits.
func (r *Result) add(p *participant, times int64) {
	r.answer.Levels.Unshare()
	for i := range r.set.limits {
		r.answer.AddTo(r.set.LimitSet, i, times*p.costOf(r.set.limits[i].Name))
	}
	r.readAgain()
}

// denyUnder denies p if its limits lack what p and others ask together.
func (p *participant) denyUnder(others []*participant) {
	r, a := &p.res, &p.res.answer
	before := a.Waits
	a.Waits = nil
	waits, lacks := make([]bucket.Waits, len(r.set.limits)), !a.Allowed
	for i := range waits {
		sum := r.costOf(i)
		for _, o := range others {
			sum = saturated(sum, o.costOf(r.set.limits[i].Name))
		}
		waits[i] = bucket.Waits{Retry: a.RetryAfter(r.set.LimitSet, i, sum), Full: a.ResetAfter(r.set.LimitSet, i)}
		lacks = lacks || waits[i].Retry > 0
		if before != nil {
			waits[i].Full = max(waits[i].Full, (*before)[i].Full)
			if !a.Allowed {
				waits[i].Retry = max(waits[i].Retry, (*before)[i].Retry)
			}
		}
	}
	if !lacks {
		a.Waits = before
		return
	}
	a.Waits, a.Allowed, r.Allowed = &waits, false, false
	r.readAgain()
}

// limitOf returns the index of the limit of a name that decided p, or -1.
func (p *participant) limitOf(name string) int {
	return slices.IndexFunc(p.res.set.limits, func(l Limit) bool { return l.Name == name })
}

// costOf returns what p asked of the limit of a name.
func (p *participant) costOf(name string) int64 {
	if i := p.limitOf(name); i >= 0 {
		return p.res.costOf(i)
	}
	return 0
}

// askDivided has s decide r, which has shares, in one step if s can.
func (l *Limiter) askDivided(ctx context.Context, now *compiled, r *request, s Store) (store.Answer, error) {
	asked := append([]store.Request{r.Request}, r.divided()...)
	answers, err := []store.JointAnswer(nil), store.ErrApart
	if together, can := s.(store.JointStore); can {
		answers, err = together.DoTogether(ctx, asked)
	}
	switch {
	case err == nil:
		noteErrors(&answers[0], answers[1:])
	case errors.Is(err, store.ErrApart):
		answers = nil
		for _, ask := range asked {
			a, err := s.Do(ctx, ask)
			if answers = append(answers, store.JointAnswer{Answer: a, Err: err}); err != nil || !a.Allowed {
				break
			}
		}
	default:
		return store.Answer{}, err
	}
	a := l.whole(ctx, now, r, s, &answers[0], answers[1:])
	return a.Answer, a.Err
}

// sharesOf returns the answers to shares, which follow those to requests.
func sharesOf(requests []request, answers []store.JointAnswer) [][]store.JointAnswer {
	shares, rest := make([][]store.JointAnswer, len(requests)), answers[len(requests):]
	for i := range requests {
		n := len(requests[i].shares)
		shares[i], rest = rest[:n], rest[n:]
		noteErrors(&answers[i], shares[i])
	}
	return shares
}

// noteErrors gives a request the error of a share: then it took nothing.
func noteErrors(own *store.JointAnswer, shares []store.JointAnswer) {
	for _, a := range shares {
		own.Err = cmp.Or(own.Err, a.Err)
	}
}

// whole returns the answer of s to r, whose shares have these answers: its own,
// unless it was allowed and a share was not, because another request came in
// between, or there are too many holds. Then whole gives back all that was
// taken, and returns that answer.
func (l *Limiter) whole(ctx context.Context, now *compiled, r *request, s Store, own *store.JointAnswer, shares []store.JointAnswer) *store.JointAnswer {
	if own.Err != nil || !own.Allowed {
		return own
	}
	i := slices.IndexFunc(shares, func(a store.JointAnswer) bool { return a.Err != nil || !a.Allowed })
	if i < 0 {
		return own
	}
	began := time.Now()
	back := r.Request
	back.Request = r.Undo(&own.Answer)
	_, err := s.Do(context.WithoutCancel(ctx), back)
	for n := range r.shares {
		back.Request = r.shares[n].Undo(&own.Answer)
		_, failed := s.Do(context.WithoutCancel(ctx), back)
		err = errors.Join(err, failed)
	}
	l.waiters.wake(r.key)
	if err != nil {
		l.unsettled(ctx, now, r.key, own.Source, began, err)
	}
	return &shares[i]
}
