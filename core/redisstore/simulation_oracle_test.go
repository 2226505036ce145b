package redisstore_test

import (
	"fmt"
	"slices"
	"time"
)

// The oracle: it remembers what was taken on one key, and answers two
// questions. Each has a file with its arithmetic:
//
//	admit    may so many be admitted? Not more in any window than the limits promise (_bound)
//	surely   must so many be there? As many as are left after all that was taken, at the slowest rate (_level)
//
// It shares no code with the library, and the first answer needs no bucket: it
// adds up the tokens in every window. Between the questions the player records
// what else happened: touch, wrote and seen are decisions that may have
// written, certainly have, or took nothing; takeBack, moved, debit and settled
// are tokens that came back or were charged.

// oracle has a timeline for each name of a limit. Its time is effective time:
// the sum of all steps of the clock forward. A step back adds nothing.
type oracle struct {
	now, wall int64 // µs
	offset    int64 // wall - now, while no step back happened
	timelines map[string]*timeline
	stepsBack []stepBack // since the key was new
	reserved  []*grant   // promised, in the order of the calls
	era       int        // how often the key was reset
	returned  int64      // when something was last given back
	stale     bool       // something from before a reset was given back
	leases    bool       // some process may hold a lease
	charged   int64      // the tokens of all debits
}

// grant is tokens that were admitted, or promised for an instant. A refund is a
// grant of a negative number.
type grant struct {
	asked, at int64 // effective µs
	n         int64
	rules     []limitRule
	era       int
	reserved  bool  // by Reserve or WaitN
	undone    bool  // all was given back before it was due
	kept      bool  // but not to all its limits: the policy no longer had some
	first     int64 // n before something was given back
}

// timeline holds the tokens admitted under one name.
type timeline struct {
	oracle  *oracle
	grants  []*grant // by their instants; at one instant, reservations come last
	uses    []inUse  // which limits had the name, and when
	written int64    // when the key was last written for sure
	flows   []flow   // in the order of their instants
	clean   int64    // the first decision after the last step of the clock back; never: there was none
}

// breach is a promise that was broken.
type breach struct {
	rule string // the promise in few words: shrink looks for the same one
	text string
}

func (b *breach) Error() string { return b.rule + ": " + b.text }

func broken(rule, format string, args ...any) error {
	return &breach{rule, fmt.Sprintf(format, args...)}
}

func newOracle(wall int64) *oracle {
	o := &oracle{wall: wall}
	o.reset()
	o.era = 0
	return o
}

// reset forgets everything before.
func (o *oracle) reset() {
	o.era++
	o.offset = o.wall - o.now
	o.timelines = make(map[string]*timeline)
	o.stepsBack, o.reserved, o.stale = nil, nil, false
}

func (o *oracle) line(name string) *timeline {
	tl := o.timelines[name]
	if tl == nil {
		tl = &timeline{oracle: o, written: o.now, clean: o.now}
		o.timelines[name] = tl
	}
	return tl
}

func (tl *timeline) backs() []stepBack { return tl.oracle.stepsBack }

// move moves the clock.
func (o *oracle) move(d int64) {
	if d < 0 {
		o.stepsBack = append(o.stepsBack, stepBack{o.now, o.wall, o.wall + d})
		for _, tl := range o.timelines {
			tl.clean = never
		}
	} else {
		o.now += d
	}
	o.wall += d
}

// touch records that the store decided under rules, and may have written.
func (o *oracle) touch(rules []limitRule) {
	for _, x := range rules {
		tl := o.line(x.name)
		if tl.clean == never {
			tl.clean = o.now
		}
		if i := slices.IndexFunc(tl.uses, func(u inUse) bool { return u.rule == x }); i >= 0 {
			tl.uses[i].end = never
			continue
		}
		tl.uses = append(tl.uses, inUse{rule: x, start: tl.written, end: never})
	}
}

// wrote records that the store certainly wrote under rules: other limits of
// these names are no longer in use.
func (o *oracle) wrote(rules []limitRule) {
	for _, x := range rules {
		tl := o.line(x.name)
		tl.written = o.now
		for i := range tl.uses {
			if u := &tl.uses[i]; u.rule != x && u.end == never {
				u.end = max(o.now+u.rule.fills(o.charged), u.due)
			}
		}
	}
}

// settled records that leases came back, if there were any: each under the
// limits that it was taken under, which may be any of the lists.
func (o *oracle) settled(lists [][]limitRule) {
	if o.leases {
		for _, rules := range lists {
			o.touch(rules)
		}
	}
}

// seen records that the store answered under rules without taking tokens. It
// may have stored that: a step back of the clock, the end of a lease that went
// with the request, or that these limits are in force from now on.
func (o *oracle) seen(rules []limitRule) { o.touch(rules) }

// admit adds n tokens, requested now and due at an instant, to the timelines.
// It checks every window that holds them. sure means that the store certainly
// wrote them now.
func (o *oracle) admit(rules []limitRule, n, at int64, reserved, sure bool) (*grant, error) {
	o.touch(rules)
	g := &grant{asked: o.now, at: at, n: n, rules: rules, era: o.era, reserved: reserved, first: n}
	var err error
	for i := 0; i < len(rules) && n > 0; i++ {
		tl := o.line(rules[i].name)
		if at > o.now {
			for j := range tl.uses {
				if u := &tl.uses[j]; u.rule == rules[i] {
					u.due = max(u.due, at)
				}
			}
		}
		tl.flow(flow{at, n, g, reserved})
		if e := tl.add(g, &rules[i]); e != nil && err == nil {
			err = e
		}
	}
	if sure {
		o.wrote(rules)
	}
	return g, err
}

// insert inserts g in order.
func (tl *timeline) insert(g *grant) (at int) {
	i := len(tl.grants)
	for i > 0 && (tl.grants[i-1].at > g.at || tl.grants[i-1].at == g.at && tl.grants[i-1].ahead() && !g.ahead()) {
		i--
	}
	tl.grants = slices.Insert(tl.grants, i, g)
	return i
}

// ahead reports whether g was due later than it was requested.
func (g *grant) ahead() bool { return g.at > g.asked }

// add inserts g and checks all windows that hold it. A refund offsets as many
// tokens in the windows that hold it, and none in windows that begin after it.
func (tl *timeline) add(g *grant, x *limitRule) error {
	i := tl.insert(g)
	left := int64(0)
	for first := i; first >= 0; first-- {
		left += tl.grants[first].n
		if tl.grants[first].n < 0 || first > 0 && tl.grants[first-1].n > 0 && tl.grants[first-1].at == tl.grants[first].at {
			continue // a longer window has more tokens
		}
		sum := left
		for last := i; last < len(tl.grants); last++ {
			if last > i {
				sum += tl.grants[last].n
			}
			if s, t := tl.grants[first].at, tl.grants[last].at; !tl.within(sum, s, t) {
				promise := "more than MaxIn"
				if tl.oracle.stale {
					promise += ", after something from before a reset was given back"
				}
				return broken(promise, "limit %q (now %d every %v of %d): %d tokens from %s to %s, that is within %v",
					x.name, x.num/x.den, time.Duration(x.interval)*time.Microsecond, x.capacity, sum, instant(s), instant(t), time.Duration(t-s)*time.Microsecond)
			}
		}
	}
	return nil
}

// instant formats an effective time.
func instant(at int64) string { return (time.Duration(at) * time.Microsecond).String() }

// takeBack records that n tokens of g came back. A reservation that was not due
// yet counts as never made, unless it was used. If all is true, the store must
// have given all of them back to the limits in rules.
func (o *oracle) takeBack(g *grant, n int64, rules []limitRule, all, used bool) {
	o.touch(common(rules, g.rules))
	if n == 0 {
		return
	}
	if g.era != o.era {
		o.stale = true
		return
	}
	happened := used || !g.reserved || g.at < o.now
	if !happened {
		g.n -= n
		g.undone = g.n == 0
		g.kept = len(common(g.rules, rules)) < len(g.rules)
	}
	for _, x := range g.rules {
		tl := o.line(x.name)
		if happened {
			tl.insert(&grant{asked: o.now, at: o.now, n: -n})
		}
		switch {
		case !all || !slices.ContainsFunc(rules, func(y limitRule) bool { return x == y }) || tl.promised(g):
		case g.undone:
			tl.flows = slices.DeleteFunc(tl.flows, func(f flow) bool { return f.of == g })
		default:
			tl.flow(flow{at: o.now, n: -n, of: g})
		}
		// A limit that the policy no longer has keeps its hold, which the store
		// counts as used when it is due.
		if g.undone && len(common([]limitRule{x}, rules)) > 0 {
			tl.grants = slices.DeleteFunc(tl.grants, func(other *grant) bool { return other == g })
		}
	}
}

// moved records that the limits in rules got n tokens that are on no timeline.
func (o *oracle) moved(n int64, rules []limitRule) {
	o.touch(rules)
	for _, x := range rules {
		o.line(x.name).insert(&grant{asked: o.now, at: o.now, n: -n})
	}
}

// debit records that n tokens were charged, whether or not they were there.
// Nobody was admitted for them.
func (o *oracle) debit(rules []limitRule, n int64) {
	o.touch(rules)
	if n == 0 {
		return
	}
	o.charged += n
	g := &grant{asked: o.now, at: o.now, n: n, rules: rules, era: o.era}
	for _, x := range rules {
		o.line(x.name).flow(flow{at: o.now, n: n, of: g})
	}
}

// promised reports whether tokens other than g's are promised for now or later.
func (tl *timeline) promised(g *grant) bool {
	for i := len(tl.grants) - 1; i >= 0 && tl.grants[i].at >= tl.oracle.now; i-- {
		if other := tl.grants[i]; other.reserved && (other != g || !g.undone) {
			return true
		}
	}
	return false
}

// reserve is admit for a reservation. It checks that the reservation is not due
// before an earlier one.
func (o *oracle) reserve(h *handle, n, delay int64, sure bool) (*grant, error) {
	rules, at := h.requests, o.now+delay
	o.touch(h.rules)
	var first *grant
	for _, g := range o.reserved {
		if !g.undone && g.at > at && shareName(g.rules, rules) {
			first = g
		}
	}
	g, err := o.admit(rules, n, at, true, sure)
	if sure {
		o.wrote(h.rules)
	}
	o.reserved = append(o.reserved, g)
	if err == nil && first != nil {
		err = broken("reservations out of order", "due at %s, but made after one of %d that is due at %s", instant(at), first.n, instant(first.at))
	}
	return g, err
}

func shareName(a, b []limitRule) bool { return len(common(a, b)) > 0 }

// common returns the rules of a whose names are in b.
func common(a, b []limitRule) (both []limitRule) {
	for _, x := range a {
		if slices.ContainsFunc(b, func(y limitRule) bool { return x.name == y.name }) {
			both = append(both, x)
		}
	}
	return both
}
