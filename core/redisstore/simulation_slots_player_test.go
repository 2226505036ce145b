package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// The player of simulations of slots: it carries the operations out, and
// compares each answer with what the oracle allows.

type slotPlayer struct {
	*slotSimulation
	env       environment
	clock     slotClock
	simulated *simulatedClock
	shared    *slotOracle
	procs     []*slotProcess
	backs     int // steps of the clock back
	decisions int
	met       *[slotKinds]int64
	log       *strings.Builder // nil: none
}

// slotProcess is a process: its limiters, and what its callers hold.
type slotProcess struct {
	id      int
	store   *outageStore
	limiter *core.Limiter
	pair    *core.Limiter
	list    int
	local   *slotOracle // of the fallback
	takings []*slotTaking
}

// slotTaking is a decision that was allowed, as its caller knows it.
type slotTaking struct {
	results  []core.Result // of several limiters, if they were charged together
	joint    *core.JointResult
	oracle   *slotOracle
	limits   []core.Limit // at the decision
	each     []int64
	out      []*outSlot // of each limit; nil: it holds nothing
	pairFrom int        // the index in limits of the first of pair; -1: none
	released bool
	ended    bool // it was settled or undone
}

func (pl *slotPlayer) note(format string, args ...any) {
	if pl.log != nil {
		fmt.Fprintf(pl.log, "%14s "+format+"\n", append([]any{time.Duration(pl.clock.real) * time.Microsecond}, args...)...)
	}
}

func (pl *slotPlayer) newOracle() *slotOracle {
	return &slotOracle{clock: &pl.clock, used: make(map[string]int64)}
}

// play plays the simulation and returns the promise that it broke.
func (pl *slotPlayer) play() error {
	pl.clock = slotClock{wall: pl.start}
	pl.simulated = &simulatedClock{}
	pl.simulated.wall.Store(pl.start)
	pl.env.begin(pl.simulated)
	defer pl.env.end()
	pl.shared = pl.newOracle()
	for i := range pl.slotSimulation.procs {
		pl.procs = append(pl.procs, nil)
		if err := pl.start1(i); err != nil {
			return err
		}
	}
	for _, o := range pl.ops {
		pl.shift(o)
		if err := pl.do(o); err != nil {
			return err
		}
	}
	return pl.recover()
}

func (pl *slotPlayer) policy(list int) core.Policy {
	p := core.Policy{Name: simulatedPolicy, Limits: pl.lists[list], OnFailure: core.FailClosed}
	if pl.outages {
		p.OnFailure = core.FailLocal
	}
	return p
}

// start1 starts the i-th process.
func (pl *slotPlayer) start1(i int) (err error) {
	spec := pl.slotSimulation.procs[i]
	p := &slotProcess{id: i, list: spec.list % len(pl.lists), local: pl.newOracle()}
	p.store = &outageStore{Store: pl.env.store(spec)}
	var used core.Store = p.store
	if !pl.outages {
		used = p.store.Store
	}
	if p.limiter, err = core.NewLimiter(used, pl.policy(p.list), silent); err == nil {
		p.pair, err = core.NewLimiter(used, core.Policy{Name: "pair", Limits: pair, OnFailure: pl.policy(0).OnFailure}, silent)
	}
	pl.procs[i] = p
	return err
}

// shift moves the clock.
func (pl *slotPlayer) shift(o slotOp) {
	d, list := int64(0), pl.lists[o.pick%len(pl.lists)]
	hold := max(list[o.pick%len(list)].MaxHold, time.Millisecond).Microseconds()
	switch o.move {
	case stay:
	case toEnd:
		if list := pl.shared.next(); len(list) > 0 {
			end := list[o.pick%len(list)]
			if d = end.wallEnd - pl.clock.wall; o.pick%7 == 0 {
				d = end.realEnd - pl.clock.real
			}
			d = max(0, d+int64(o.pick%3)-1)
		}
	case oneMicro:
		d = 1
	case partOfHold:
		d = int64(o.part * float64(hold))
	case beyond:
		d = int64((1 + o.part) * float64(hold))
	case back:
		d = -int64(o.part * float64(min(2*hold, furthestBack.Microseconds())))
	}
	if d == 0 {
		return
	}
	if pl.clock.wall += d; d > 0 {
		pl.clock.real += d
	} else {
		pl.backs++
		pl.env.stepBack(time.Duration(-d) * time.Microsecond)
	}
	pl.simulated.wall.Store(pl.clock.wall)
	pl.note("the clock: %+v", time.Duration(d)*time.Microsecond)
}

func (pl *slotPlayer) do(o slotOp) error {
	p := pl.procs[o.who%len(pl.procs)]
	if pl.met != nil {
		pl.met[o.kind]++
	}
	p.store.away = o.away
	defer func() { p.store.away = false }()
	switch o.kind {
	case slotSetPolicy:
		return pl.setPolicy(p, o.pick%len(pl.lists))
	case slotDeath:
		pl.note("process %d dies", p.id)
		return pl.start1(p.id)
	case slotAllow, slotFill, slotAtMost, slotTogether, slotParts, slotPeek:
		return pl.decide(p, o)
	default:
		return pl.end(p, o)
	}
}

func (pl *slotPlayer) setPolicy(p *slotProcess, list int) error {
	err := p.limiter.SetPolicy(pl.policy(list))
	pl.note("p%d.SetPolicy(list %d): %v", p.id, list, err)
	switch {
	case err == nil:
		p.list = list
	case !strings.Contains(err.Error(), "is a unit that callers take"):
		return broken("an error", "SetPolicy: %v", err)
	}
	return nil
}

// oracle returns the one of the store that decides for p.
func (pl *slotPlayer) oracle(p *slotProcess) *slotOracle {
	if p.store.away {
		return p.local
	}
	return pl.shared
}

// asks returns what o takes of each limit, and in units.
func (pl *slotPlayer) asks(s *slotOracle, limits []core.Limit, o slotOp) (each []int64, units core.Units) {
	units = core.Units{core.Requests: o.n}
	if o.kind == slotPeek {
		return make([]int64, len(limits)), core.Units{core.Requests: 0}
	}
	requests, counted := int64(never), false
	for _, x := range limits {
		least, _ := s.sum(x.Name, nil)
		switch x.Unit {
		case "":
			counted = true
			requests = min(requests, x.Capacity-least)
		case tokens:
			if units[tokens] = int64(o.tokens * float64(x.Capacity) / 3); o.kind == slotFill {
				units[tokens] = max(0, x.Capacity-least)
			}
		default:
			units[x.Unit] = int64(o.pick % 4)
		}
	}
	if o.kind == slotFill && counted {
		units[core.Requests] = max(1, requests+int64(o.pick%2))
	}
	return eachOf(limits, units), units
}

// eachOf is what units take of each limit.
func eachOf(limits []core.Limit, units core.Units) (each []int64) {
	for _, x := range limits {
		unit := x.Unit
		if unit == "" {
			unit = core.Requests
		}
		each = append(each, units[unit])
	}
	return each
}

// parts divides units.
func parts(units core.Units, o slotOp) []core.Units {
	one, rest := core.Units{}, core.Units{}
	for unit, n := range units {
		one[unit] = n * int64(o.pick%3) / 2
		rest[unit] = n - one[unit]
	}
	return []core.Units{one, rest}
}

// decide makes a decision and checks it.
func (pl *slotPlayer) decide(p *slotProcess, o slotOp) error {
	ctx, s, limits := context.Background(), pl.oracle(p), pl.lists[p.list]
	pl.decisions++
	if o.kind == slotAtMost {
		return pl.atMost(p, o)
	}
	each, units := pl.asks(s, limits, o)
	t := &slotTaking{oracle: s, pairFrom: -1}
	takings, divided := []*slotTaking{t}, []core.Units{units}
	var err error
	var allowed bool
	var answer core.Result
	switch o.kind {
	case slotParts:
		divided = parts(units, o)
		var charges []core.Charge
		for _, part := range divided {
			charges = append(charges, core.Charge{Limiter: p.limiter, Key: simulatedKey, Units: part})
		}
		var j core.JointResult
		j, err = core.AllowTogether(ctx, charges...)
		takings = nil
		for _, res := range j.Results {
			answer = res
			takings = append(takings, &slotTaking{oracle: s, pairFrom: -1, results: []core.Result{res}})
		}
		allowed = j.Allowed
	case slotTogether:
		var j core.JointResult
		j, err = core.AllowTogether(ctx, core.Charge{Limiter: p.limiter, Key: simulatedKey, Units: units}, core.Charge{Limiter: p.pair, Key: simulatedKey})
		if allowed = j.Allowed; err == nil {
			answer = j.Results[0]
		}
		t.joint, t.results, t.pairFrom = &j, j.Results, len(limits)
		limits, each = slices.Concat(limits, pair), append(each, 1)
	default:
		if o.kind == slotPeek {
			answer, err = p.limiter.Peek(ctx, simulatedKey)
		} else {
			answer, err = p.limiter.AllowUnits(ctx, simulatedKey, units)
		}
		allowed, t.results = answer.Allowed, []core.Result{answer}
	}
	pl.note("p%d.%s(%v, away %v) = allowed %v, retry after %v, %v; before: %v", p.id, slotKindNames[o.kind], units, o.away, allowed, answer.RetryAfter, err, s)
	if err != nil {
		return broken("an error", "%s: %v", slotKindNames[o.kind], err)
	}
	if (answer.Source == core.FromFallback) != o.away {
		return broken("who decides", "%v decided, and the store is away: %v", answer.Source, o.away)
	}
	may, must := s.admits(limits, each)
	if allowed && !may {
		return broken("more at once than there are slots", "%v of %v is allowed", each, limits)
	}
	if !allowed && must {
		return broken("a slot that is free is denied", "%v of %v is denied", each, limits)
	}
	if !allowed && o.kind != slotTogether && s.exact() {
		if want := s.retryAfter(limits, each); want > 0 && answer.RetryAfter.Microseconds() != want {
			return broken("RetryAfter", "%v, want %v", answer.RetryAfter, time.Duration(want)*time.Microsecond)
		}
	}
	if allowed && o.kind != slotPeek {
		for n, t := range takings {
			if t.limits, t.each = limits, each; o.kind == slotParts {
				t.each = eachOf(limits, divided[n])
			}
			for i, x := range limits {
				t.out = append(t.out, s.take(x, t.each[i]))
			}
		}
		p.takings = append(p.takings, takings...)
	}
	if o.kind == slotTogether {
		return nil
	}
	return pl.remaining(s, &answer)
}

// atMost takes as many requests as are there.
func (pl *slotPlayer) atMost(p *slotProcess, o slotOp) error {
	s, limits := pl.oracle(p), pl.lists[p.list]
	least, most, debt := o.n, o.n, false
	for _, x := range limits {
		low, high := s.sum(x.Name, nil)
		switch {
		case x.Unit == "":
			least, most = min(least, max(0, x.Capacity-high)), min(most, max(0, x.Capacity-low))
		default:
			debt = debt || x.Mode != core.Concurrent && high > x.Capacity
		}
	}
	res, err := p.limiter.AllowAtMost(context.Background(), simulatedKey, o.n)
	pl.note("p%d.AllowAtMost(%d, away %v) = %d, allowed %v, %v; before: %v", p.id, o.n, o.away, res.Cost, res.Allowed, err, s)
	switch {
	case err != nil:
		return broken("an error", "AllowAtMost: %v", err)
	case res.Cost > most:
		return broken("more at once than there are slots", "AllowAtMost(%d) got %d, and at most %d are there", o.n, res.Cost, most)
	case res.Cost < least && !debt:
		return broken("a slot that is free is denied", "AllowAtMost(%d) got %d, and %d are there", o.n, res.Cost, least)
	case !res.Allowed:
		return nil
	}
	t := &slotTaking{oracle: s, results: []core.Result{res}, limits: limits, pairFrom: -1}
	for _, x := range limits {
		n := int64(0)
		if x.Unit == "" {
			n = res.Cost
		}
		t.each, t.out = append(t.each, n), append(t.out, s.take(x, n))
	}
	p.takings = append(p.takings, t)
	return pl.remaining(s, &res)
}

// remaining checks what is left of each limit after a decision.
func (pl *slotPlayer) remaining(s *slotOracle, answer *core.Result) error {
	for _, l := range answer.Limits() {
		least, most := s.sum(l.Limit.Name, nil)
		if low, high := max(0, l.Limit.Capacity-most), max(0, l.Limit.Capacity-least); l.Remaining < low || l.Remaining > high {
			return broken("Remaining", "%q has %d left, want from %d to %d", l.Limit.Name, l.Remaining, low, high)
		}
	}
	return nil
}

// end releases, holds, settles or undoes a decision.
func (pl *slotPlayer) end(p *slotProcess, o slotOp) error {
	may := slices.Clone(p.takings)
	may = slices.DeleteFunc(may, func(t *slotTaking) bool {
		switch o.kind {
		case slotRelease:
			return t.released
		case slotAgain:
			return !t.released
		case slotHold:
			return false
		default:
			return t.ended
		}
	})
	if len(may) == 0 {
		return nil
	}
	t := may[o.pick%len(may)]
	switch o.kind {
	case slotHold:
		return pl.hold(p, t)
	case slotSettle:
		return pl.settle(p, t, o)
	case slotUndo:
		return pl.undo(p, t)
	}
	var err error
	if t.joint != nil {
		err = t.joint.Release(context.Background())
	} else {
		err = t.results[0].Release(context.Background())
	}
	lost := pl.lost(p, t)
	sent := pl.took(t, isSlots)
	pl.note("p%d.%s of %v (lost %v): %v", p.id, slotKindNames[o.kind], t.each, lost, err)
	if lost = lost && sent && !t.released; err != nil && (!lost || !errors.Is(err, core.ErrUnavailable)) {
		return broken("an error", "Release: %v", err)
	}
	if !t.released && !lost {
		pl.giveBack(t, isSlots)
	}
	t.released = true
	return nil
}

// lost reports whether what gives t back can't reach the store that it was
// taken from.
func (pl *slotPlayer) lost(p *slotProcess, t *slotTaking) bool {
	return t.oracle == pl.shared && p.store.away
}

// took reports whether t took something that comes back, of limits that of
// selects.
func (pl *slotPlayer) took(t *slotTaking, of func(core.Limit) bool) bool {
	for i, out := range t.out {
		if out != nil && of(t.limits[i]) {
			return true
		}
	}
	return false
}

func isSlots(x core.Limit) bool    { return x.Mode == core.Concurrent }
func isEstimate(x core.Limit) bool { return x.Mode != core.Concurrent && x.MaxHold > 0 }

// giveBack records that what t holds of some limits came back.
func (pl *slotPlayer) giveBack(t *slotTaking, of func(core.Limit) bool) {
	for i, out := range t.out {
		if out != nil && of(t.limits[i]) {
			pl.clock.release(out)
		}
	}
}

// current returns the limits to which p returns what t took.
func (pl *slotPlayer) current(p *slotProcess, t *slotTaking, i int) bool {
	if t.pairFrom >= 0 && i >= t.pairFrom {
		return true
	}
	return slices.ContainsFunc(pl.lists[p.list], func(x core.Limit) bool { return x.Name == t.limits[i].Name })
}

func (pl *slotPlayer) settle(p *slotProcess, t *slotTaking, o slotOp) error {
	actual, units := make([]int64, len(t.limits)), core.Units{}
	for i, x := range t.limits {
		if actual[i] = t.each[i]; x.Unit == tokens && t.each[i] > 0 {
			actual[i] = int64(o.tokens * 2 * float64(t.each[i]))
			units[tokens] = actual[i]
		}
	}
	var err error
	if t.joint != nil {
		err = t.joint.Settle(context.Background(), units)
	} else {
		err = t.results[0].Settle(context.Background(), units)
	}
	lost := pl.lost(p, t)
	pl.note("p%d.Settle(%v) of %v (lost %v): %v", p.id, units, t.each, lost, err)
	if t.ended = true; err != nil {
		if lost && errors.Is(err, core.ErrUnavailable) {
			return nil
		}
		return broken("an error", "Settle: %v", err)
	}
	if lost {
		return nil // there was nothing to send
	}
	for i, x := range t.limits {
		if isSlots(x) || !pl.current(p, t, i) {
			continue
		}
		if isEstimate(x) && t.each[i] > 0 {
			pl.clock.release(t.out[i])
			t.oracle.used[x.Name] += actual[i]
		} else {
			t.oracle.used[x.Name] += actual[i] - t.each[i]
		}
	}
	return nil
}

func (pl *slotPlayer) undo(p *slotProcess, t *slotTaking) error {
	var err error
	if t.joint != nil {
		err = t.joint.Undo(context.Background())
	} else {
		err = t.results[0].Undo(context.Background())
	}
	lost := pl.lost(p, t)
	pl.note("p%d.Undo of %v (lost %v): %v", p.id, t.each, lost, err)
	t.ended, t.released = true, true
	if err != nil && (!lost || !errors.Is(err, core.ErrUnavailable)) {
		return broken("an error", "Undo: %v", err)
	}
	if lost {
		return nil
	}
	for i, x := range t.limits {
		switch {
		case isSlots(x) && t.out[i] != nil: // also if the limit is gone from this process's version
			pl.clock.release(t.out[i])
		case !pl.current(p, t, i):
		case t.out[i] != nil:
			pl.clock.release(t.out[i])
		case x.MaxHold == 0:
			t.oracle.used[x.Name] -= t.each[i]
		}
	}
	return nil
}

// hold lengthens what t holds. What has ended is taken again if it is free.
func (pl *slotPlayer) hold(p *slotProcess, t *slotTaking) error {
	var err error
	if t.joint != nil {
		err = t.joint.Hold(context.Background())
	} else {
		err = t.results[0].Hold(context.Background())
	}
	lost := pl.lost(p, t)
	pl.note("p%d.Hold of %v (lost %v): %v; before: %v", p.id, t.each, lost, err, t.oracle)
	if over, bad := pl.holdIsOver(t, lost, err); over || bad != nil {
		return bad
	}
	expired := errors.Is(err, core.ErrExpired)
	mayFail := false
	for i, x := range t.limits {
		out := t.out[i]
		if out == nil || out.released || isSlots(x) && t.released || !isSlots(x) && t.ended {
			continue
		}
		must, may := pl.clock.must(out), pl.clock.may(out)
		least, most := t.oracle.sum(x.Name, out)
		fits, mayFit := most+out.n <= x.Capacity, least+out.n <= x.Capacity
		mayFail = mayFail || !must && !fits
		switch {
		case !expired && !may && !must && !mayFit:
			return broken("more at once than there are slots", "Hold takes %d of %q again, which others have", out.n, x.Name)
		case must || fits || !expired:
			pl.clock.hold(out, x.MaxHold.Microseconds())
		case may || mayFit:
			out.wallEnd = pl.clock.wall + x.MaxHold.Microseconds()
		}
	}
	if expired && !mayFail {
		return broken("a hold that is lost", "Hold: %v, but what was lost is free", err)
	}
	return nil
}

// holdIsOver reports whether a Hold that returned err has nothing more to
// check. bad is the rule that err breaks.
func (pl *slotPlayer) holdIsOver(t *slotTaking, lost bool, err error) (over bool, bad error) {
	if lost && (err == nil || errors.Is(err, core.ErrUnavailable)) || errors.Is(err, core.ErrSettled) && !errors.Is(err, core.ErrExpired) && t.released {
		if !lost && !t.ended && t.joint == nil && pl.took(t, isEstimate) {
			return false, broken("Hold", "%v, but an estimate is out", err)
		}
		if t.joint == nil || lost {
			return true, nil
		}
	}
	if err != nil && !errors.Is(err, core.ErrExpired) && !errors.Is(err, core.ErrSettled) {
		return false, broken("an error", "Hold: %v", err)
	}
	return false, nil
}

// recover waits until all holds are over. Then everything is there but what was
// used.
func (pl *slotPlayer) recover() error {
	last := int64(0)
	for _, s := range append([]*slotOracle{pl.shared}, pl.locals()...) {
		for _, o := range s.out {
			last = max(last, o.wallEnd-pl.clock.wall, o.realEnd-pl.clock.real)
		}
	}
	pl.clock.wall, pl.clock.real = pl.clock.wall+last, pl.clock.real+last
	pl.simulated.wall.Store(pl.clock.wall)
	for _, p := range pl.procs {
		res, err := p.limiter.Peek(context.Background(), simulatedKey)
		if err != nil {
			return broken("an error", "Peek: %v", err)
		}
		if err := pl.remaining(pl.shared, &res); err != nil {
			return err
		}
	}
	return nil
}

func (pl *slotPlayer) locals() (list []*slotOracle) {
	for _, p := range pl.procs {
		list = append(list, p.local)
	}
	return list
}
