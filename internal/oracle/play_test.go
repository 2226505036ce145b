package oracle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
)

// player plays a history, on one or two stores.
type player struct {
	*history
	now     int64
	stretch int // how often the clock was set back
	order   int // of the last event

	sides    []*side
	accounts map[string]*account // by key
	allowed  []*decision
	denied   *denial   // the last decision, unless it was allowed
	refused  *decision // the last one that took nothing

	decisions int       // that were made, with peeks
	log       *[]string // nil: nobody reads it
}

// request is what callers ask. Its key is the name of the policy.
type request struct {
	kind             kind
	process, version int
	key              string
	requests, tokens int64
	countsTokens     bool   // a limit does
	other            int64  // together: requests of key b
	twice            int64  // together: how many of requests are a second charge of the key
	floor            int64  // allow, together: what each limit of the key must have left, if anything is taken of it
	fresh            string // what makes it another key, which nobody has used
}

// denial is a denied request. It holds while its accounts don't change.
type denial struct {
	request
	at    int64
	retry time.Duration
}

// decision is what an allowed request took of one key, on each side.
type decision struct {
	*account
	process, version int
	ledgers          []*ledger // of the version's limits
	costs            []int64   // by limit
	results          []*core.Result
	reservations     []*core.Result // nil if it is none
	events           []*event       // by limit; nil: nothing counts
	holdings         []*holding     // by limit; nil: nothing is held
	ended, released  bool           // undone, settled or canceled; its slots are released
	penalized        []bool         // by limit: the denial made a debt
}

// view is what a caller sees of a decision.
type view struct {
	allowed         bool
	cost, remaining int64
	retry, reset    time.Duration
	delay           time.Duration // of a reservation
	limits          []limitView
	failed          error
}

type limitView struct {
	cost, remaining, debt int64
	violated              bool
	retry, reset          time.Duration
}

func look(r *core.Result, err error) view {
	v := view{r.Allowed, r.Cost, r.Remaining, r.RetryAfter, r.ResetAfter, 0, nil, err}
	for _, l := range r.Limits() {
		v.limits = append(v.limits, limitView{l.Cost, l.Remaining, l.Debt, l.Violated, l.RetryAfter, l.ResetAfter})
	}
	return v
}

// levels returns how many whole tokens each limit has, below 0 for a debt.
func (v view) levels() []int64 {
	levels := make([]int64, len(v.limits))
	for i, l := range v.limits {
		levels[i] = l.remaining - l.debt
	}
	return levels
}

// latest is how far the clock goes: stores know no time after 2112.
var latest = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// farthest is the longest delay that is waited: stores bound them.
const farthest = 50 * 365 * 24 * time.Hour

// play plays a history, and returns how many decisions were made.
func (h *history) play(clients [2]*redis.Client, log *[]string) (decisions int, failed *broken) {
	if clients[0] != nil && len(h.limits["a"]) > 1 { // the stores forget at different times
		alike := *h
		alike.forgets, alike.expires, alike.oneShard = false, false, false
		h = &alike
	}
	p := &player{history: h, now: h.start, accounts: make(map[string]*account), log: log}
	for policy, versions := range h.limits {
		defs := make([][]*definition, len(versions))
		for v, limits := range versions {
			for _, l := range limits {
				defs[v] = append(defs[v], define(l))
			}
		}
		p.accounts[policy] = newAccount(policy, defs)
		p.accounts[policy].forgotten = h.forgets && len(versions) > 1
	}
	defer p.open(clients)()
	defer func() {
		switch b := recover().(type) {
		case nil:
		case broken:
			decisions, failed = p.decisions, &b
		default:
			decisions, failed = p.decisions, &broken{"nothing panics", fmt.Sprintf("%v\n%s", b, debug.Stack())}
		}
	}()
	if !h.forgets {
		p.begin()
	}
	for _, o := range h.ops {
		p.step(o)
	}
	p.windows()
	return p.decisions, nil
}

// begin uses both keys, so that a MemoryStore drops none for the other one.
func (p *player) begin() {
	q := request{kind: together, key: "a", other: 1, countsTokens: p.accounts["a"].any(0, (*definition).countsTokens), tokens: 1}
	if p.accounts["a"].any(0, (*definition).countsRequests) {
		q.requests = 1
	}
	p.ask(q)
}

// step plays one step.
func (p *player) step(o op) {
	r := rand.New(rand.NewPCG(o.seed, 0))
	q := request{kind: o.kind, process: r.IntN(2), version: r.IntN(len(p.limits["a"])), key: pick(r, "a", "a", "a", "a", "b")}
	a := p.accounts[q.key]
	q.countsTokens = a.any(q.version, (*definition).countsTokens)
	countsRequests := a.any(q.version, (*definition).countsRequests)
	var t *decision
	if n := len(p.allowed) - 1 - r.IntN(3); n >= 0 {
		t = p.allowed[n]
	}
	switch o.kind {
	case move:
		p.moveTo(p.someTime(r, a, q.version))
	case back:
		p.setBack(pick(r, 1, 1000, time.Minute.Microseconds(), time.Hour.Microseconds(), r.Int64N(40*day)))
	case retry:
		if d := p.denied; d != nil && d.retry < farthest && d.at+d.retry.Microseconds() < latest {
			p.retries(d)
		}
	case rest, peek:
		if q.kind = peek; o.kind == rest {
			p.rests(q)
		} else {
			p.ask(q)
		}
	case allow, atMost, together, reserve:
		q.requests, q.tokens = p.amount(r, q, (*definition).countsRequests), p.amount(r, q, (*definition).countsTokens)
		q.other = 1 + r.Int64N(p.accounts["b"].limits(0)[0].Capacity)
		if (o.kind == allow && !q.countsTokens || o.kind == together) && chance(r, 0.2) {
			q.floor = pick(r, 0, 1, r.Int64N(1+p.amount(r, q, (*definition).countsRequests)), r.Int64N(mostTokens))
		}
		if o.kind == together && chance(r, 0.3) {
			q.twice = r.Int64N(q.requests + 1)
		}
		switch {
		case o.kind == reserve && q.requests > 0 && !a.any(q.version, (*definition).slots): // which nobody can reserve
			p.reserve(q)
		case o.kind == atMost && countsRequests:
			q.requests, q.tokens = max(1, min(q.requests, 1<<31)), 0 // a script counts no more
			p.ask(q)
		case o.kind == allow, o.kind == together && q.key == "a":
			p.ask(q)
		}
	case reset:
		if p.forgets {
			p.reset(q)
		}
	case fresh:
		if !p.forgets {
			return
		}
		if q.fresh, q.tokens = fmt.Sprint(o.seed), 1; countsRequests {
			q.requests = 1
		}
		v := p.each(q, func(s *side) []view { whole, _ := s.decide(p.history, q); return []view{whole} })[0]
		p.require(v.failed == nil && v.allowed, "a new bucket is full", "%+v: %+v", q, v)
	case refund, debit:
		q.requests = r.Int64N(1 + p.amount(r, q, (*definition).countsRequests))
		p.changeKey(q)
	case undo, settle, release:
		if p.refused != nil && chance(r, 0.1) {
			p.changeNothing(o.kind)
			return
		}
		fallthrough
	default:
		if t != nil && (t.reservations != nil) == (o.kind == cancel) {
			p.changeDecision(o.kind, t, q.version, r)
		}
	}
}

// someTime draws when the clock shows what next: mostly instants at which
// something happens, or just before or after.
func (p *player) someTime(r *rand.Rand, a *account, version int) int64 {
	i := r.IntN(len(a.limits(version)))
	d, l := a.limits(version)[i], a.of[version][i]
	interval := d.RefillInterval.Microseconds()
	instants := []int64{p.now, p.now + d.hold, p.now + d.penalty, p.now + interval, p.now + int64(float64(interval)/max(d.RefillRate, 1))}
	if d.Mode == core.Aligned {
		instants = append(instants, d.next(p.now), d.next(p.now))
	}
	for _, h := range l.holdings {
		if !h.ended && h.end > p.now {
			instants = append(instants, h.end)
		}
	}
	for _, e := range l.events {
		if e.kind == reserved && e.at > p.now {
			instants = append(instants, e.at)
		}
	}
	if chance(r, 0.3) {
		return p.now + min(int64(r.Float64()*3*float64(interval+d.hold)/max(d.RefillRate, 1)), 400*day)
	}
	if chance(r, 0.2) {
		return p.now + min(int64(r.Float64()*3*float64(interval+d.hold)), 400*day)
	}
	return pick(r, instants...) + int64(r.IntN(3)-1)
}

// amount draws how many tokens of those limits a request takes.
func (p *player) amount(r *rand.Rand, q request, of func(*definition) bool) int64 {
	a, capacity, left := p.accounts[q.key], int64(math.MaxInt64), int64(math.MaxInt64)
	all := p.greedy && chance(r, 0.7) || chance(r, 0.1)
	if all {
		p.levelsOf(a, q.process, q.version)
	}
	for i, d := range a.limits(q.version) {
		if !of(d) {
			continue
		}
		if capacity = min(capacity, d.Capacity); all {
			left = min(left, a.levels[i])
		}
	}
	switch {
	case capacity == math.MaxInt64:
		return 0
	case all:
		return max(0, left+int64(pick(r, 0, 0, 0, 1, -1)))
	}
	return pick(r, r.Int64N(3), 1+r.Int64N(capacity), 1+r.Int64N(capacity), capacity+int64(r.IntN(4))/3)
}

// moveTo moves the clock forward.
func (p *player) moveTo(at int64) {
	if at > p.now && at < latest {
		p.now = at
	}
}

// setBack sets the clock back. What is held may be over, and is not held for
// longer.
func (p *player) setBack(by int64) {
	for _, a := range p.accounts {
		a.setBack = true
		for _, l := range a.ledgers {
			for _, h := range l.holdings {
				if h.sure > p.now {
					h.sure -= by
				} else {
					h.sure = 0
				}
			}
		}
	}
	p.now, p.denied = p.now-by, nil
	p.stretch++
}

// known reports whether the levels that a version has now were seen.
func (p *player) known(a *account, version int) bool {
	return a.levels != nil && a.seenAt == p.now && a.seenBy == version && a.simple()
}

// levelsOf returns the levels that a version has now.
func (p *player) levelsOf(a *account, process, version int) []int64 {
	if !p.known(a, version) {
		p.ask(request{kind: peek, process: process, version: version, key: a.key})
	}
	return a.levels
}

// each asks the same on every side, and returns what the first one answers. Both
// stores decide alike, to the last bit.
func (p *player) each(q request, ask func(s *side) []view) []view {
	var first []view
	for i, s := range p.sides {
		if s.expiry != nil {
			err := s.expiry.set(p.now, p.expires)
			p.require(err == nil, "each key of Redis has a TTL", "before %+v: %v", q, err)
		}
		views := ask(s)
		if p.log != nil {
			*p.log = append(*p.log, fmt.Sprintf("%s %s: %+v:\n\t%+v", clock(p.now), s.name, q, views))
		}
		if i == 0 {
			first = views
		}
		p.require(reflect.DeepEqual(views, first), "both stores decide alike, to the last bit", "%+v: %+v on %s, but %+v", q, views, s.name, first)
	}
	return first
}

func clock(at int64) string { return time.UnixMicro(at).UTC().Format("2006-01-02 15:04:05.000000") }

// ask asks for tokens or looks, checks the answer and notes what was taken.
func (p *player) ask(q request) view {
	decisions := []*decision{p.charge(q, q.key, q.requests, q.tokens)}
	if q.kind == together {
		decisions = append(decisions, p.charge(q, "b", q.other, 0))
	}
	views := p.each(q, func(s *side) []view {
		whole, parts := s.decide(p.history, q)
		views := []view{whole}
		for i, r := range parts {
			if i < len(decisions) {
				decisions[i].results = append(decisions[i].results, r)
			}
			views = append(views, look(r, nil))
		}
		return views
	})
	p.decisions++
	whole, parts := views[0], views[1:]
	for len(parts) > len(decisions) {
		p.require(reflect.DeepEqual(parts[0], parts[len(decisions)]), "charges of one limiter and key are one decision", "%+v: %+v", q, parts)
		parts = parts[:len(decisions)]
	}
	p.require(whole.failed == nil, "a request is decided", "%+v: %v", q, whole.failed)
	if q.kind == atMost {
		decisions[0].costs = p.charge(q, q.key, whole.cost, 0).costs
		p.takesWhatIsThere(q, whole)
	}
	if !whole.allowed && q.kind != peek {
		p.penalize(q, decisions)
	}
	p.takesAllOrNothing(q, decisions, whole, parts)
	if p.denied != nil && (q.kind != peek || q.version != p.denied.version) { // a look may note that limits have changed
		p.denied = nil
	}
	for i, t := range decisions {
		if whole.allowed {
			p.took(t)
		} else {
			p.refused = t
		}
		p.leavesTheRest(t.account, t.version, parts[i])
		t.levels, t.seenAt, t.seenBy = parts[i].levels(), p.now, t.version
	}
	if !whole.allowed && q.kind != peek {
		p.denied = &denial{q, p.now, whole.retry}
	}
	return view{allowed: whole.allowed, retry: whole.retry, reset: parts[0].reset, limits: parts[0].limits}
}

// penalize notes that a request was denied.
func (p *player) penalize(q request, decisions []*decision) {
	for _, t := range decisions {
		for i, d := range t.limits(t.version) {
			cost := t.costs[i]
			if q.kind == atMost { // which asks for one
				cost = d.cost(1, 0)
			}
			t.penalized[i] = t.ledgers[i].meter.penalize(d, p.now, cost)
			t.ledgers[i].owed = t.ledgers[i].owed || t.penalized[i]
		}
	}
}

// charge returns a decision that takes so much of a key.
func (p *player) charge(q request, key string, requests, tokens int64) *decision {
	a := p.accounts[key]
	t := &decision{account: a, process: q.process, version: q.version, ledgers: a.of[q.version]}
	for _, d := range t.limits(q.version) {
		t.costs = append(t.costs, d.cost(requests, tokens))
	}
	t.events, t.holdings, t.penalized = make([]*event, len(t.costs)), make([]*holding, len(t.costs)), make([]bool, len(t.costs))
	return t
}

// took notes what an allowed decision has taken.
func (p *player) took(t *decision) {
	if slices.Max(t.costs) == 0 {
		return
	}
	t.use(t.version, p.now, t.costs)
	for i, d := range t.limits(t.version) {
		if t.costs[i] > 0 {
			p.tookOf(t, i, d)
		}
	}
	p.allowed = append(p.allowed, t)
}

// tookOf notes that a decision has taken tokens of its i-th limit.
func (p *player) tookOf(t *decision, i int, d *definition) {
	l, e := t.ledgers[i], event{tokens: t.costs[i]}
	if d.holds() {
		e.holding = p.holdOf(l, d, e.tokens)
	} else {
		l.meter.take(d, p.now, e.tokens)
	}
	if t.holdings[i] = e.holding; !d.slots() {
		t.events[i] = p.note(l, e)
	}
}

// holdOf notes that tokens of a limit are held.
func (p *player) holdOf(l *ledger, d *definition, tokens int64) *holding {
	h := &holding{tokens: tokens, end: p.now + d.hold, sure: p.now + d.hold}
	l.holdings = append(l.holdings, h)
	return h
}

// note notes an event at this instant, or when it is due.
func (p *player) note(l *ledger, e event) *event {
	p.order++
	e.order, e.stretch, e.at = p.order, p.stretch, max(e.at, p.now)
	return l.add(&e)
}
