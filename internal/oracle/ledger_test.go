package oracle

import (
	"cmp"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// account is what the oracle knows of one key.
type account struct {
	key      string
	ledgers  []*ledger   // by limit
	of       [][]*ledger // by version, in the order of its limits
	turns    bool        // versions decide in turns
	reserved bool        // there was a reservation
	setBack  bool        // the clock was set back
	untold   bool        // totals don't tell any more what is used

	// The store may forget a key that is full for the version that wrote it last,
	// and not for another one.
	forgotten bool

	levels []int64 // that a version saw at an instant; nil if they have changed
	seenBy int
	seenAt int64
}

// ledger is what the oracle has seen of one limit of a key.
type ledger struct {
	name     string
	slots    bool
	defs     []*definition // by version; nil where the limit is missing
	events   []*event
	holdings []*holding
	meter    meter
	total    total // while versions decide in turns
	owed     bool  // more may have been charged than was there
}

// event is tokens of a limit, and when they count.
type event struct {
	kind    eventKind
	tokens  int64    // below 0: they come back
	at      int64    // of a reservation: when it is due
	order   int      // in which the oracle saw it
	stretch int      // how often the clock was set back before
	holding *holding // of an estimate
	steps   []int64  // positions of at, by version
}

type eventKind int

const (
	admitted eventKind = iota // by a decision
	reserved                  // by a decision before at
	charged                   // whatever was there; below 0, given back
)

// holding is tokens that a decision holds.
type holding struct {
	tokens int64
	end    int64 // of MaxHold
	sure   int64 // until when it holds at least, also if the clock was set back
	ended  bool  // before that
	order  int   // in which it ended
	used   int64 // of these tokens, as a settlement said
}

// newAccount returns the account of a key that limits, by version, decide.
func newAccount(key string, versions [][]*definition) *account {
	a := &account{key: key, turns: len(versions) > 1, of: make([][]*ledger, len(versions))}
	for v, limits := range versions {
		for _, d := range limits {
			l := a.ledger(d, len(versions))
			l.defs[v] = d
			a.of[v] = append(a.of[v], l)
		}
	}
	return a
}

// ledger returns the ledger of a limit, which versions know by its name. Slots
// and tokens of one name are two limits.
func (a *account) ledger(d *definition, versions int) *ledger {
	i := slices.IndexFunc(a.ledgers, func(l *ledger) bool { return l.name == d.Name && l.slots == d.slots() })
	if i >= 0 {
		return a.ledgers[i]
	}
	l := &ledger{name: d.Name, slots: d.slots(), defs: make([]*definition, versions)}
	a.ledgers = append(a.ledgers, l)
	return l
}

// limits returns the definitions of a version.
func (a *account) limits(version int) (defs []*definition) {
	for _, l := range a.of[version] {
		defs = append(defs, l.defs[version])
	}
	return defs
}

// any reports whether a limit of a version is such.
func (a *account) any(version int, such func(*definition) bool) bool {
	return slices.ContainsFunc(a.limits(version), such)
}

// simple reports whether levels change just as decisions say. While versions
// decide in turns, a decision of one can change how the other one sees what is
// reserved or held.
func (a *account) simple() bool {
	holds := func(l *ledger) bool {
		return slices.ContainsFunc(l.defs, func(d *definition) bool { return d != nil && d.holds() })
	}
	return !a.turns || !a.forgotten && !a.reserved && !slices.ContainsFunc(a.ledgers, holds)
}

// metered reports whether a meter knows the level of a limit.
func (a *account) metered(d *definition) bool {
	return d.exact && !a.turns && !a.setBack && !d.slots() && !(d.stepped() && d.holds())
}

// totaled reports whether totals tell what versions in turns have left.
func (a *account) totaled() bool {
	told := func(l *ledger) bool {
		return !slices.ContainsFunc(l.defs, func(d *definition) bool {
			return d != nil && (!d.exact || d.holds() || d.stepped())
		})
	}
	return a.turns && !a.untold && !a.forgotten && !a.reserved && !a.setBack && !slices.ContainsFunc(a.ledgers, func(l *ledger) bool { return !told(l) })
}

// use notes that a version took tokens of its limits; of a negative number, that
// they came back. If it took nothing, nothing is written, and its rate does not
// count.
func (a *account) use(version int, now int64, tokens []int64) {
	moves := false
	for i, l := range a.of[version] {
		if tokens[i] < 0 && l.total.until(l.defs[version], now).used < 0.01 { // too little to say whether any is used
			a.untold = true
		}
		moves = moves || tokens[i] != 0
	}
	for i, l := range a.of[version] {
		if d := l.defs[version]; moves && !d.slots() {
			l.total = l.total.until(d, now)
			l.total.used = max(0, l.total.used+float64(tokens[i]))
		}
	}
}

func (l *ledger) add(e *event) *event {
	e.steps = make([]int64, len(l.defs))
	for i, d := range l.defs {
		if d != nil {
			e.steps[i] = d.position(e.at)
		}
	}
	l.events = append(l.events, e)
	return e
}

// held returns how many tokens are held, at least and at most: where the clock
// was set back, for no longer than from now. The record of an Aligned limit does
// not say by how much that was, and estimates are held longer.
func (l *ledger) held(now int64, d *definition) (least, most int64) {
	for _, h := range l.holdings {
		if d.Mode != core.Aligned {
			h.end = min(h.end, now+d.hold)
		}
		if !h.ended && h.sure > now {
			least += h.tokens
		}
		if !h.ended && h.end > now {
			most += h.tokens
		}
	}
	return least, most
}

// largest returns the largest capacity of all versions.
func (l *ledger) largest() (capacity int64) {
	for _, d := range l.defs {
		if d != nil {
			capacity = max(capacity, d.Capacity)
		}
	}
	return capacity
}

// mayOwe reports whether a bucket may owe so much: under every version at least
// its capacity.
func (l *ledger) mayOwe(tokens int64) bool {
	return !slices.ContainsFunc(l.defs, func(d *definition) bool { return d != nil && tokens > d.Capacity })
}

// tooMany returns the ends of a window that admits more than its MaxIn, or nil.
// Windows end with an admission, so they count what was charged before it, and
// what is held then. They end where the clock was set back.
func (l *ledger) tooMany() (first, last *event) {
	events := slices.Clone(l.events)
	slices.SortStableFunc(events, func(a, b *event) int {
		return cmp.Or(cmp.Compare(a.stretch, b.stretch), cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order))
	})
	for j, last := range events {
		if last.kind == charged {
			continue
		}
		sum, more := int64(0), int64(0)
		for i := j; i >= 0 && events[i].stretch == last.stretch; i-- {
			first := events[i]
			if sum += first.countsUntil(last); first.kind == reserved {
				more = 1 // it may exceed by a step's gain
			}
			if first.tokens > 0 && l.exceeded(sum, first, last, more) {
				return first, last
			}
		}
	}
	return nil, nil
}

// countsUntil returns how many tokens count in a window that ends with last.
func (e *event) countsUntil(last *event) int64 {
	switch {
	case e.kind == charged && e.tokens > 0 && e.order > last.order: // behind a reservation
		return 0
	case e.holding == nil:
		return e.tokens
	case e.holding.end > last.at && (!e.holding.ended || e.holding.order > last.order): // it is held
		return e.holding.tokens
	default:
		return e.holding.used
	}
}

// exceeded reports whether so many tokens are too many between two events: more
// than the capacity, and the gain of the steps in between and of some more. Of
// versions in turns the largest capacity and the fastest rate count, for the
// longest step more.
func (l *ledger) exceeded(tokens int64, first, last *event, more int64) bool {
	capacity, longest, versions := l.largest(), int64(0), 0
	for _, d := range l.defs {
		if d != nil {
			longest, versions = max(longest, d.step), versions+1
		}
	}
	return !slices.ContainsFunc(l.defs, func(d *definition) bool {
		if d == nil {
			return false
		}
		version := slices.Index(l.defs, d)
		steps := last.steps[version] - first.steps[version]
		if versions > 1 {
			steps = ceil(last.at-first.at+longest, d.shortest)
		} else if d.stepped() {
			steps = ceil(last.at-first.at, d.step)
		}
		return !d.exceeds(tokens, capacity, steps+more)
	})
}

// meter is the bucket of an exact definition, as it is documented. It knows
// neither versions nor a clock that is set back.
type meter struct {
	used int64 // in parts of 1/den token; above the capacity: a debt
	at   int64 // the last step that has counted: an instant if Stepped, else a position
}

// refill counts the steps until an instant.
func (m *meter) refill(d *definition, now int64) {
	now, step := d.position(now), d.every()
	if steps := (now - m.at) / step; m.used > 0 && steps < ceil(m.used, d.num) {
		m.used -= steps * d.num
		m.at += steps * step
	} else {
		m.used, m.at = 0, now // steps count from the next use
	}
}

// take takes tokens; of a negative number it gives back what fills the bucket.
func (m *meter) take(d *definition, now, tokens int64) {
	if d.exact {
		m.refill(d, now)
		m.used = max(0, m.used+tokens*d.den)
	}
}

// cancel gives back tokens that were reserved for an instant, but for those that
// refill from then on until the debt is paid: they are reserved behind it.
func (m *meter) cancel(d *definition, now, due, tokens int64) {
	m.refill(d, now)
	due, now = d.position(due), d.position(now)
	if debt := m.used - d.Capacity*d.den; debt > 0 {
		now = m.at + ceil(debt, d.num)*d.every()
	}
	steps := max(0, (now-m.at)/d.every()-floor(due-m.at, d.every()))
	if steps < ceil(tokens*d.den, d.num) {
		m.used = max(0, m.used-(tokens*d.den-steps*d.num))
	}
}

// penalize notes a denied request for tokens: if the bucket lacks them, can have
// them and is in no debt yet, it owes what it gains in the penalty. It reports
// whether it does.
func (m *meter) penalize(d *definition, now, tokens int64) bool {
	m.refill(d, now)
	left := d.Capacity*d.den - m.used
	if d.penalty == 0 || tokens <= 0 || tokens > d.Capacity || left < 0 || left >= tokens*d.den {
		return false
	}
	steps := d.position(now+d.penalty) - d.position(now)
	if d.stepped() {
		steps = (now+d.penalty-m.at)/d.step - (now-m.at)/d.step
	}
	m.used = max(m.used, d.Capacity*d.den+steps*d.num)
	return true
}

// level returns how many whole tokens are left, below 0 for a debt.
func (m *meter) level(d *definition, now, held int64) int64 {
	m.refill(d, now)
	return d.Capacity - held - ceil(m.used, d.den)
}

// total is the tokens of a limit that versions in turns have used, with those
// that a smaller capacity has cut: all is used where the capacity is largest. A
// rate counts from the last write.
type total struct {
	used float64
	at   int64
}

// until is the total at an instant, as a version refills it.
func (t total) until(d *definition, now int64) total {
	at, clock := t.at, now
	var steps int64
	switch {
	case d.calendar():
		first := d.position(at)
		if at > d.period.from {
			first, at = first+1, d.period.to
		}
		steps = max(0, d.position(now)-first)
		clock = d.period.from
	case d.Mode == core.Aligned:
		at, clock = ceil(at, d.step)*d.step, floor(now, d.step)*d.step
		fallthrough
	default:
		steps = max(0, (clock-at)/d.step)
	}
	if steps > 0 {
		at, t.used = clock, max(0, t.used-float64(steps)*float64(d.num)/float64(d.den))
	}
	if t.at = min(at, now); t.used < 1e-6 {
		t = total{at: max(t.at, clock)}
	}
	return t
}

// ceil returns a/b, rounded up, of a from 0.
func ceil(a, b int64) int64 { return a/b + min(1, a%b) }

// floor returns a/b, rounded down.
func floor(a, b int64) int64 {
	if a < 0 {
		return -ceil(-a, b)
	}
	return a / b
}
