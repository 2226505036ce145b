package redisstore_test

import (
	"fmt"
	"slices"
	"time"
)

// oracle keeps a timeline of what was admitted on one key, and tells when it is more than the limits promise. It
// shares no code with the library, and it knows nothing of buckets: it only counts, in every window.
//
// Its time is effective: how far the clock went forward, all together. A step back adds nothing.
type oracle struct {
	now, wall int64 // µs
	offset    int64 // wall - now, while no step back happened
	lines     map[string]*timeline
	stepsBack []stepBack // since the key was new
	reserved  []*grant   // promised, in the order of asking
	era       int        // how often the key was reset
	returned  int64      // when something was last given back
	stale     bool       // something from before was given back
	leases    bool       // some process may hold a lease
}

// grant is tokens that were admitted, or are promised for an instant. One of fewer than 0 tokens is a refund.
type grant struct {
	asked, at int64 // effective µs
	n         int64
	rules     []limitRule
	era       int
	reserved  bool
	undone    bool  // all was given back before it was due
	kept      bool  // but not to all its limits: some were not the policy's any more
	first     int64 // n when it was asked for
}

// timeline is what was admitted under one name.
type timeline struct {
	oracle  *oracle
	grants  []*grant // by their instants; of those at one instant, those that were promised before come last
	uses    []inUse
	written int64 // when the key was last written for sure
	flows   []flow
	clean   int64 // the first decision after the last step back; never: there was none
}

// breach is a promise that was broken.
type breach struct {
	rule string // in few words
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

// reset begins anew: what was before no longer counts.
func (o *oracle) reset() {
	o.era++
	o.offset = o.wall - o.now
	o.lines = make(map[string]*timeline)
	o.stepsBack, o.reserved, o.stale = nil, nil, false
}

func (o *oracle) line(name string) *timeline {
	tl := o.lines[name]
	if tl == nil {
		tl = &timeline{oracle: o, written: o.now, clean: o.now}
		o.lines[name] = tl
	}
	return tl
}

func (tl *timeline) backs() []stepBack { return tl.oracle.stepsBack }

// move moves the clock.
func (o *oracle) move(d int64) {
	if d < 0 {
		o.stepsBack = append(o.stepsBack, stepBack{o.now, o.wall, o.wall + d})
		for _, tl := range o.lines {
			tl.clean = never
		}
	} else {
		o.now += d
	}
	o.wall += d
}

// touch notes that the store decided something under rules, and maybe wrote.
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

// wrote notes that the store wrote under rules for sure: other limits of these names are out of use.
func (o *oracle) wrote(rules []limitRule) {
	for _, x := range rules {
		tl := o.line(x.name)
		tl.written = o.now
		for i := range tl.uses {
			if u := &tl.uses[i]; u.rule != x && u.end == never {
				u.end = max(o.now, u.due)
			}
		}
	}
}

// seen notes that the store answered under rules without taking anything.
func (o *oracle) seen(rules []limitRule) {
	if len(o.stepsBack) > 0 { // which it notes
		o.touch(rules)
		return
	}
	for _, x := range rules {
		o.line(x.name)
	}
}

// admit puts n tokens, asked for now and due at an instant, on the timelines, and looks at every window they are in.
// sure says that the store wrote them now.
func (o *oracle) admit(rules []limitRule, n, at int64, reserved, sure bool) (*grant, error) {
	o.touch(rules)
	g := &grant{asked: o.now, at: at, n: n, rules: rules, era: o.era, reserved: reserved, first: n}
	var err error
	for i := range rules {
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

// insert puts g where it belongs.
func (tl *timeline) insert(g *grant) (at int) {
	i := len(tl.grants)
	for i > 0 && (tl.grants[i-1].at > g.at || tl.grants[i-1].at == g.at && tl.grants[i-1].ahead() && !g.ahead()) {
		i--
	}
	tl.grants = slices.Insert(tl.grants, i, g)
	return i
}

// ahead reports whether g was promised before it was due.
func (g *grant) ahead() bool { return g.at > g.asked }

// add inserts g and checks all windows that hold it. A refund makes up for as many tokens in the windows that hold
// it, and for none in those that begin after it.
func (tl *timeline) add(g *grant, x *limitRule) error {
	i := tl.insert(g)
	left := int64(0)
	for first := i; first >= 0; first-- {
		left += tl.grants[first].n
		if tl.grants[first].n < 0 || first > 0 && tl.grants[first-1].n > 0 && tl.grants[first-1].at == tl.grants[first].at {
			continue // a longer window has more
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

// instant is an effective time, for people.
func instant(at int64) string { return (time.Duration(at) * time.Microsecond).String() }

// takeBack notes that n tokens of g came back. A reservation that was not due yet never happened, unless it was used.
// If all is true, the store must have given all of them back to the limits in rules.
func (o *oracle) takeBack(g *grant, n int64, rules []limitRule, all, used bool) {
	o.touch(common(rules, g.rules))
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
		case !all || !slices.Contains(rules, x) || tl.promised(g):
		case g.undone:
			tl.flows = slices.DeleteFunc(tl.flows, func(f flow) bool { return f.of == g })
		default:
			tl.flow(flow{at: o.now, n: -n, of: g})
		}
		if g.undone {
			tl.grants = slices.DeleteFunc(tl.grants, func(other *grant) bool { return other == g })
		}
	}
}

// moved notes that n tokens which no timeline has came to the limits in rules.
func (o *oracle) moved(n int64, rules []limitRule) {
	o.touch(rules)
	for _, x := range rules {
		o.line(x.name).insert(&grant{asked: o.now, at: o.now, n: -n})
	}
}

// promised reports whether tokens are promised for now or later, besides those of g that are given back before that.
func (tl *timeline) promised(g *grant) bool {
	for i := len(tl.grants) - 1; i >= 0 && tl.grants[i].at >= tl.oracle.now; i-- {
		if other := tl.grants[i]; other.reserved && (other != g || !g.undone) {
			return true
		}
	}
	return false
}

// reserve is admit for a reservation, which must not fall due before an earlier one.
func (o *oracle) reserve(rules []limitRule, n, delay int64, sure bool) (*grant, error) {
	at := o.now + delay
	var first *grant
	for _, g := range o.reserved {
		if !g.undone && g.at > at && shareName(g.rules, rules) {
			first = g
		}
	}
	g, err := o.admit(rules, n, at, true, sure)
	o.reserved = append(o.reserved, g)
	if err == nil && first != nil {
		err = broken("reservations out of order", "due at %s, asked for after one of %d that is due at %s", instant(at), first.n, instant(first.at))
	}
	return g, err
}

func shareName(a, b []limitRule) bool { return len(common(a, b)) > 0 }

// common are the rules of a whose names are in b.
func common(a, b []limitRule) (both []limitRule) {
	for _, x := range a {
		if slices.ContainsFunc(b, func(y limitRule) bool { return x.name == y.name }) {
			both = append(both, x)
		}
	}
	return both
}
