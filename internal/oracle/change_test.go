package oracle

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// reset forgets a key, on every side: it is full, and nothing is held.
func (p *player) reset(q request) {
	p.change(q, nil, 0)
	for _, l := range p.accounts[q.key].ledgers {
		for _, e := range l.events {
			e.tokens, e.holding = 0, nil
		}
		for _, h := range l.holdings {
			p.order++
			h.ended, h.sure, h.order = true, 0, p.order
		}
		l.meter = meter{}
	}
	v := p.ask(request{kind: peek, process: q.process, version: q.version, key: q.key})
	p.require(v.reset == 0, "after a Reset a bucket is full", "%+v: %+v", q, v)
}

// changeKey refunds or debits requests of a key.
func (p *player) changeKey(q request) {
	a := p.accounts[q.key]
	charged := make([]int64, len(a.limits(q.version)))
	for i, d := range a.limits(q.version) {
		switch n := d.cost(q.requests, q.tokens); {
		case d.slots():
		case q.kind == refund:
			charged[i] = -n
		case a.of[q.version][i].mayOwe(n - p.levelsOf(a, q.process, q.version)[i]):
			charged[i] = n
		default:
			return
		}
	}
	p.change(q, nil, 0)
	a.use(q.version, p.now, charged)
	for i, d := range a.limits(q.version) {
		p.chargeOf(a.of[q.version][i], d, charged[i])
	}
	p.ask(request{kind: peek, process: q.process, version: q.version, key: q.key})
}

// change changes something on every side, and returns the error that all have.
func (p *player) change(q request, t *decision, used int64) error {
	failed := p.each(q, func(s *side) []view { return []view{{failed: s.change(p.history, q, t, used)}} })[0].failed
	known := failed == nil || errors.Is(failed, core.ErrSettled) || errors.Is(failed, core.ErrExpired)
	p.require(known, "a request is decided", "%+v: %v", q, failed)
	p.accounts[q.key].levels, p.denied = nil, nil
	return failed
}

// chargeOf notes that tokens of a limit were charged, whatever was there; of a
// negative number that they came back.
func (p *player) chargeOf(l *ledger, d *definition, tokens int64) {
	if tokens == 0 {
		return
	}
	l.owed = l.owed || tokens > 0
	p.note(l, event{kind: charged, tokens: tokens})
	for _, e := range l.events {
		if tokens < 0 && e.kind == reserved && e.at > p.now { // they may be used beside it
			e.tokens = 0
		}
	}
	l.meter.take(d, p.now, tokens)
}

// changeNothing undoes, settles or releases a decision that took nothing.
func (p *player) changeNothing(k kind) {
	t := p.refused
	q := request{kind: k, process: t.process, version: t.version, key: t.key, countsTokens: t.any(t.version, (*definition).countsTokens)}
	if k == settle && !q.countsTokens {
		return
	}
	failed := p.each(q, func(s *side) []view { return []view{{failed: s.change(p.history, q, t, 0)}} })[0].failed
	p.require(failed == nil, "a decision that took nothing gives nothing back", "%+v: %v", q, failed)
	p.ask(request{kind: peek, process: t.process, version: t.version, key: t.key})
}

// changeDecision undoes, settles or releases what a decision took, prolongs what
// it holds, or cancels it. Tokens come back under the limits that took them,
// also where the policy has others by now.
func (p *player) changeDecision(k kind, t *decision, version int, r *rand.Rand) {
	if !p.setPolicy {
		version = t.version
	}
	q := request{kind: k, process: t.process, version: version, key: t.key}
	before, used := p.levelsOf(t.account, t.process, t.version), int64(0)
	for i, d := range t.limits(t.version) {
		if k == settle && d.countsTokens() {
			used = pick(r, 0, t.costs[i], t.costs[i]/2, t.costs[i]+1, r.Int64N(2*t.costs[i]+1))
			q.countsTokens = true
		}
	}
	for i, d := range t.limits(t.version) {
		if k == settle && (!q.countsTokens || d.countsTokens() && !t.ledgers[i].mayOwe(used-before[i])) {
			return
		}
	}
	failed := p.change(q, t, used)
	switch {
	case k == hold:
		p.prolong(t, failed)
	case k == release:
		p.end(t, k, 0)
	case k == cancel:
		p.cancel(t)
	default:
		p.require(t.ended == errors.Is(failed, core.ErrSettled), "a decision is undone or settled once", "%+v: %v", q, failed)
		if !t.ended {
			p.end(t, k, used)
		}
	}
	p.ask(request{kind: peek, process: t.process, version: version, key: t.key})
}

// end notes that a decision is undone, settled or released, of which so many
// tokens were used.
func (p *player) end(t *decision, k kind, used int64) {
	back := make([]int64, len(t.costs)) // of limits that hold nothing
	for i, d := range t.limits(t.version) {
		if !t.ended && !d.holds() && k != release && (k != settle || d.countsTokens()) {
			back[i] = used - t.costs[i]
		}
	}
	t.use(t.version, p.now, back)
	for i, d := range t.limits(t.version) {
		l, h := t.ledgers[i], t.holdings[i]
		switch {
		case d.slots():
			if k != settle && !t.released {
				p.endHolding(h, 0)
			}
		case k == release || t.ended || k == settle && !d.countsTokens():
		case d.holds():
			p.settleOf(l, d, used, p.endHolding(h, used))
		default:
			p.chargeOf(l, d, used-t.costs[i])
		}
	}
	t.released = t.released || k != settle
	t.ended = t.ended || k != release
}

// endHolding notes that a holding ends, if there is one. It returns how much was
// held.
func (p *player) endHolding(h *holding, used int64) (held int64) {
	if h == nil {
		return 0
	}
	if !h.ended && h.sure > p.now {
		p.order++
		h.ended, h.order, h.used = true, p.order, min(used, h.tokens)
		held = h.tokens
	}
	h.sure = 0 // where the clock was set back, it may be over or not
	return held
}

// settleOf charges what was used of an estimate: what was held, when it was
// taken, and more than that now.
func (p *player) settleOf(l *ledger, d *definition, used, held int64) {
	if used > held {
		p.note(l, event{kind: charged, tokens: used - held})
	}
	if used > 0 {
		l.meter.take(d, p.now, used)
	}
}

// prolong notes that a decision holds for longer what it holds, and again what
// it held until lately, unless that failed: then nothing changes.
func (p *player) prolong(t *decision, failed error) {
	certain := true
	for i, d := range t.limits(t.version) {
		h := t.holdings[i]
		if h == nil || d.slots() && t.released || !d.slots() && t.ended {
			continue
		}
		certain = certain && h.sure > p.now
		switch {
		case failed != nil:
		case h.sure > p.now:
			h.end, h.sure = p.now+d.hold, p.now+d.hold
		case h.end > p.now: // where the clock was set back, it was over or not
			p.order++
			h.ended, h.order = true, p.order
			t.holdings[i] = p.holdOf(t.ledgers[i], d, h.tokens)
		default:
			p.tookOf(t, i, d)
			least, _ := t.ledgers[i].held(p.now, d)
			p.require(!d.slots() || least <= d.Capacity, slotsPromise, "limit %d of %s: %d are used", i, t.key, least)
		}
	}
	p.require(!certain || !errors.Is(failed, core.ErrExpired), "what is held can be held for longer", "%v: %v", t.costs, failed)
}

// cancel notes that a reservation is canceled. Once it is due, its tokens come
// back or not.
func (p *player) cancel(t *decision) {
	if t.ended {
		return
	}
	t.ended = true
	for i, d := range t.limits(t.version) {
		e, l := t.events[i], t.ledgers[i]
		if e == nil {
			continue
		}
		meter := l.meter
		if d.exact {
			meter.cancel(d, p.now, e.at, t.costs[i])
		}
		switch {
		case e.at <= p.now || e.tokens == 0 || e.stretch != p.stretch:
			p.chargeOf(l, d, -t.costs[i])
		default:
			e.tokens = 0
		}
		l.meter = meter
	}
}

// reserve reserves requests, which it asks for first.
func (p *player) reserve(q request) {
	t, before := p.charge(q, q.key, q.requests, 0), p.levelsOf(p.accounts[q.key], q.process, q.version)
	before, retry := slices.Clone(before), view{}
	for i, level := range before {
		if t.costs[i] > max(0, level) {
			ask := q
			ask.kind, ask.tokens = allow, 0
			retry = p.ask(ask)
			before = retry.levels() // with a penalty
			break
		}
	}
	v := p.each(q, func(s *side) []view {
		v, r := s.reserve(p.history, q)
		t.reservations = append(t.reservations, r)
		return []view{v}
	})[0]
	p.decisions++
	p.require(v.failed == nil, "a request is decided", "%+v: %v", q, v.failed)
	if !t.turns && !t.setBack && !q.countsTokens { // tokens may be owed
		p.isDueWhenTokensAreBack(q, t, v, retry.retry, before)
	}
	if !v.allowed {
		return
	}
	t.reserved, t.levels, p.denied = true, nil, nil
	for i, n := range t.costs {
		e := event{tokens: n}
		if v.delay > 0 {
			e.kind, e.at = reserved, p.now+v.delay.Microseconds()
		}
		// It may exceed by its tokens on the limits that were not the last to have
		// them, by another version's larger capacity, and by the step of a
		// definition that is rounded.
		if v.delay > 0 && (t.turns || retry.limits[i].retry < v.delay || !t.ledgers[i].defs[0].exact) {
			e.tokens = 0
		}
		if l := t.ledgers[i]; n > 0 {
			t.events[i] = p.note(l, e)
			l.meter.take(l.defs[q.version], p.now, n)
		}
	}
	p.leavesTheRest(t.account, q.version, v)
	p.allowed = append(p.allowed, t)
}
