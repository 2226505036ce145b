package oracle

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// broken is a promise that was not kept.
type broken struct{ promise, detail string }

func (p *player) require(kept bool, promise, format string, args ...any) {
	if !kept {
		panic(broken{promise, fmt.Sprintf(format, args...)})
	}
}

// A request is allowed only if every limit has its cost. Otherwise nothing is
// taken from any, nor, in a joint decision, from any key. A part that is allowed
// had the tokens.
func (p *player) takesAllOrNothing(q request, decisions []*decision, whole view, parts []view) {
	const promise = "all is taken, or nothing"
	all := true
	for i, t := range decisions {
		before, known, after := t.levels, p.known(t.account, t.version), parts[i].levels()
		lacking, looks := false, slices.Max(t.costs) == 0
		for j, d := range t.limits(t.version) {
			cost, taken, l := t.costs[j], t.costs[j], parts[i].limits[j]
			need := cost
			if cost > 0 && i == 0 {
				need += q.floor
			}
			if !whole.allowed {
				taken = 0
			}
			p.require(!known || t.penalized[j] || after[j] == before[j]-taken, promise, "%+v takes %v of %s, which had %v and has %v", q, t.costs, t.key, before, after)
			p.require(!whole.allowed || after[j] >= need-cost || cost == 0, promise, "%+v is allowed, and %s has %v", q, t.key, after)
			if lacking = lacking || after[j] < need && (cost > 0 || looks); cost > 0 && !whole.allowed && q.kind != atMost {
				p.require(l.violated == (after[j] < need), promise, "%+v costs %v, %s has %v, and limit %d is violated: %v", q, t.costs, t.key, after, j, l.violated)
				p.require((l.retry == core.Never) == (need > d.Capacity) || l.retry == core.Never && (t.turns || d.slow()), "a cost above the capacity can never pass", "%+v: %v", q, l.retry)
				p.roundsLittle(d, need-after[j], l)
			}
		}
		p.require(q.kind == atMost || parts[i].allowed == (whole.allowed || !lacking), promise, "%+v costs %v, %s has %v, and this part is allowed: %v", q, t.costs, t.key, after, parts[i].allowed)
		all = all && parts[i].allowed
	}
	p.require(whole.allowed == all, promise, "%+v is allowed: %v, and its parts: %+v", q, whole.allowed, parts)
}

// A rate that has no whole numbers is rounded down by less than a millionth, and
// its steps are no longer than 1 ms, or a ten millionth of what fills the
// bucket.
func (p *player) roundsLittle(d *definition, missing int64, l limitView) {
	if d.exact || d.Mode != core.Continuous || d.holds() || l.retry > farthest {
		return
	}
	gain, _ := d.gain.Float64()
	step, retry := 1e3+float64(d.Capacity)/gain/1e7, float64(l.retry)/1e3
	least, most := (float64(missing)-1)/gain-step, float64(missing)/gain*(1+1e-6)+step
	p.require(l.retry == 0 || least <= retry*(1+1e-9) && retry <= most, "a rate is rounded by less than a millionth", "%d tokens of %s are missing, and there in %v, not in %f to %f µs", missing, d, l.retry, least, most)
}

// AllowAtMost takes as many as there are, up to most.
func (p *player) takesWhatIsThere(q request, v view) {
	some := slices.ContainsFunc(v.limits, func(l limitView) bool { return l.remaining == 0 })
	p.require(v.allowed == (v.cost > 0) && (v.cost == q.requests || v.cost < q.requests && some), "AllowAtMost takes what is there", "%+v: %+v", q, v)
}

const slotsPromise = "slots: never more than the capacity are in use, and each comes back once"

// Nothing is lost, and nothing comes from nowhere: what is left is what
// decisions have left and the definition has refilled, to the token. Never more
// slots than the capacity are in use, and each comes back once.
func (p *player) leavesTheRest(a *account, version int, v view) {
	for i, d := range a.limits(version) { // even a look writes, where a calendar's last write is far back
		at := a.of[version][i].total.at
		a.untold = a.untold || d.calendar() && d.position(p.now)-d.position(at) > 2*ceil(d.Capacity*d.den, d.num)
	}
	for i, d := range a.limits(version) {
		l := a.of[version][i]
		least, most := l.held(p.now, d)
		free, level := v.limits[i].remaining, v.levels()[i]
		if d.slots() {
			p.require(max(0, d.Capacity-most) <= free && free <= max(0, d.Capacity-least), slotsPromise,
				"limit %d of %s: %d are free, %d to %d are used", i, a.key, free, least, most)
		}
		if a.metered(d) {
			want := l.meter.level(d, p.now, most)
			p.require(level == want, "nothing is lost, and nothing comes from nowhere", "limit %d of %s has %d tokens, want %d", i, a.key, level, want)
		}
		if a.totaled() {
			p.keepsWhatWasUsed(l, d, v.limits[i])
		}
	}
}

// Limits that change keep what was used. Where the capacity is largest, all
// that is; a smaller one makes no debt, but its ResetAfter tells.
func (p *player) keepsWhatWasUsed(l *ledger, d *definition, v limitView) {
	const promise = "limits that change keep what was used"
	used, level := l.total.until(d, p.now).used, float64(v.remaining-v.debt)
	left, slack := float64(d.Capacity)-used, 0.01+max(used, float64(l.largest()))/(1<<46) // 64 roundings of a double
	most := left + slack
	for _, c := range l.defs { // the period of the last write may count, where its start is not known any more
		if c != nil && c.calendar() {
			most = max(most, left+slack+float64(c.num)/float64(c.den))
		}
	}
	p.require(d.Capacity < l.largest() || level <= most, promise, "limit %s has %f tokens, want at most %f", d.Name, level, most)
	if slices.ContainsFunc(l.defs, func(d *definition) bool { return d != nil && d.calendar() }) {
		return // of periods that lie far back fewer count
	}
	left = math.Floor(left - slack)
	p.require(level >= left && (level >= 0 || l.owed) || d.Capacity < l.largest() && l.owed, promise, "limit %s has %f tokens, want at least %f", d.Name, level, left)
	reset := ((used-slack)*float64(d.den)/float64(d.num) - 1) * float64(d.step)
	p.require(v.reset > farthest || float64(v.reset.Microseconds()) >= reset, promise, "limit %s has used %f tokens, and is full in %v", d.Name, used, v.reset)
}

// Who waits RetryAfter alone is allowed. A microsecond earlier he is not, but
// for a delay past the known periods of a calendar, which is a bound.
func (p *player) retries(d *denial) {
	at := d.at + d.retry.Microseconds()
	far := func(l *definition) bool { return l.calendar() && d.retry.Microseconds() > l.step }
	penalty := func(l *definition) bool { return l.penalty > 0 } // the early request would get another one
	if at-1 > p.now && !p.accounts[d.key].any(d.version, penalty) && !p.accounts["b"].any(0, penalty) && !p.accounts[d.key].forgotten && !p.accounts[d.key].any(d.version, far) && !(d.kind == together && p.accounts["b"].any(0, far)) {
		p.moveTo(at - 1)
		v := p.ask(d.request)
		p.require(!v.allowed && v.retry == time.Microsecond, "a microsecond before RetryAfter nobody is allowed", "%+v: %v", d, v.retry)
	}
	p.moveTo(at)
	p.require(p.ask(d.request).allowed, "who waits RetryAfter alone is allowed", "%+v", d)
}

// A bucket at rest is full when ResetAfter says so. Holds may end earlier.
func (p *player) rests(q request) {
	const promise = "a bucket at rest is full when ResetAfter says so"
	v, a := p.ask(q), p.accounts[q.key]
	full := p.now + v.reset.Microseconds()
	if v.reset > farthest || full >= latest {
		return
	}
	if full-1 > p.now && !a.forgotten && !a.any(q.version, (*definition).holds) && !a.any(q.version, (*definition).calendar) {
		p.moveTo(full - 1)
		early := p.ask(q)
		p.require(early.reset == time.Microsecond, promise, "%+v: ResetAfter was %v, and a microsecond before it is %v", q, v.reset, early.reset)
	}
	p.moveTo(full)
	v = p.ask(q)
	for i, d := range a.limits(q.version) {
		p.require(v.limits[i].remaining == d.Capacity && v.reset == 0, promise, "%+v: %+v", q, v)
	}
}

// A reservation is due when its tokens are back: when the same request, denied
// now, may be asked again. A debt of a full bucket can be promised.
func (p *player) isDueWhenTokensAreBack(q request, t *decision, v view, retry time.Duration, before []int64) {
	deep := retry > farthest
	for i, d := range t.limits(q.version) {
		deep = deep || before[i]-t.costs[i] < -d.Capacity || d.calendar()
	}
	p.require(v.allowed && v.delay == retry || !v.allowed && deep, "a reservation is due when its tokens are back",
		"%+v: %+v, RetryAfter was %v, and before there were %v", q, v, retry, before)
}

// A window of d admits at most MaxIn(d). What is given back is taken off the
// windows in which it comes back. A reservation counts when it is due, and may
// exceed by a step's gain. Limits that change, also two versions in turns: at
// most the largest capacity and the fastest rate, for d and the longer step.
func (p *player) windows() {
	for _, a := range p.accounts {
		for i, l := range a.ledgers {
			if first, last := l.tooMany(); first != nil {
				p.require(false, "a window of d admits at most MaxIn(d)", "limit %d of %s, from %s to %s", i, a.key, clock(first.at), clock(last.at))
			}
		}
	}
}
