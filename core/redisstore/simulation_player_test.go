package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// The player: it carries out the operations of a simulation, in doBy. Each
// operation moves the clock, calls the library, has the checker compare the
// answer, and records in the oracle what was taken or came back. The files
// _decide, _reserve, _return, _override, _outage and _clock have its
// operations.

const (
	simulatedPolicy = "api"
	simulatedKey    = "k"
)

// player runs a simulation on the library and checks it against an oracle.
type player struct {
	simulation  *simulation
	environment environment
	clock       *simulatedClock
	*oracle             // of the buckets that decide: those of the store, or of a fallback
	shared      *oracle // of those of the store

	rules [][]limitRule // of the simulation's lists
	procs []*process
	taken []*taking        // tokens that may be given back
	met   *matrix          // nil: operations are not counted
	log   *strings.Builder // nil: no log

	decisions int
	count     int      // of calls of the library
	marked    []opKind // the kinds of the current operation, for the matrix
	denied    lastDenial
	left      leftover
	retry     int64 // the last RetryAfter, µs
	unclear   bool  // the rest of the simulation can't be checked
	spoiled   bool  // the key of the policy "bad" can't be used
	each      bool  // the decision that is checked was asked for in units
	acted     []int // what count was at each process's last call, and at the last FLUSHALL
}

// taking is a decision or a reservation whose tokens may come back.
type taking struct {
	h *handle
	g *grant // of requests
	t *grant // of tokens
	amount
	local   bool        // of a fallback
	under   []limitRule // the limits then
	each    bool        // it was asked for in units
	lent    bool        // on a lease from before a reset
	res     core.Result
	r       *core.Reservation // nil: a decision
	backs   int               // how many steps of the clock back came before it
	era     int               // oracle.era then
	touched bool              // some of it was refunded
}

// lastDenial is the last answer, if it was a denial and there was no other call
// since.
type lastDenial struct {
	h     *handle
	a     amount
	retry int64
	count int
}

// leftover is the last Remaining, if there was no other call since.
type leftover struct {
	h *handle
	amount
	at    int64
	count int
}

func (pl *player) note(format string, args ...any) {
	if pl.log != nil {
		fmt.Fprintf(pl.log, format+"\n", args...)
	}
}

// play runs the whole simulation and returns the first breach.
func (pl *player) play() (err error) {
	pl.clock = &simulatedClock{}
	pl.clock.wall.Store(pl.simulation.start)
	pl.shared = newOracle(pl.simulation.start)
	pl.oracle = pl.shared
	for _, list := range pl.simulation.lists {
		pl.rules = append(pl.rules, rulesOf(simulatedPolicy, list))
	}
	pl.acted = make([]int, len(pl.simulation.procs)+1)
	pl.environment.begin(pl.clock)
	defer pl.environment.end()
	for i, spec := range pl.simulation.procs {
		pl.procs = append(pl.procs, nil)
		if err := pl.run(i, spec); err != nil {
			return err
		}
	}
	for _, o := range pl.simulation.ops {
		pl.marked = pl.marked[:0]
		if err := pl.do(o); err != nil || pl.unclear {
			return err
		}
		pl.met.add(pl.marked)
	}
	if err := pl.recover(); err != nil || pl.unclear {
		return err
	}
	return pl.recoverLocal()
}

// do plays one operation.
func (pl *player) do(o op) error {
	p := pl.procs[o.who%len(pl.procs)]
	h, err := pl.handle(p, o)
	if err != nil {
		return err
	}
	if p.outages != nil && o.away && inOutage[o.kind] {
		back := o.kind == doCancel || o.kind == doUndo || o.kind == doCorrect
		return pl.outage(p, back && o.pick%2 == 0, func() error { return pl.doBy(h, o) })
	}
	return pl.doBy(h, o)
}

// doBy plays one operation by h.
func (pl *player) doBy(h *handle, o op) error {
	if o.kind == doRetry {
		if d := pl.denied; d.h == h && d.count == pl.count && d.retry < int64(400*24*time.Hour/time.Microsecond) {
			return pl.again(d)
		}
		o.kind = doAllow
	}
	pl.shift(o)
	pl.marked = append(pl.marked, o.kind)
	pl.mark(h)
	switch o.kind {
	case doAllow:
		a := amount{pl.cost(h, o), pl.tokens(h, o)}
		if a.tokens > 0 && o.pick%7 == 0 {
			a.n = 0
		}
		for range max(1, o.times) {
			if err := pl.allow(h, a); err != nil {
				return err
			}
		}
		return nil
	case doAll:
		return pl.allowAll(h)
	case doPeek:
		_, err := pl.peek(h)
		return err
	case doReserve:
		return pl.ask(h, pl.cost(h, o))
	case doWait:
		return pl.wait(h, pl.cost(h, o))
	case doAtMost:
		return pl.atMost(h, pl.cost(h, o))
	case doDebit:
		a := amount{1 + int64(o.part*o.part*3*float64(leastCapacity(h.requests))), pl.tokens(h, o)}
		if a.tokens > 0 && o.pick%3 == 0 {
			a.n = 0
		}
		return pl.charge(h, a)
	case doCancel, doUndo, doRefund, doCorrect:
		return pl.giveBack(h, o)
	case doOverride:
		return pl.setOverride(h.p, o.pick%(len(pl.simulation.lists)+1))
	case doExcept:
		return pl.setException(h.p, o.pick%(len(pl.simulation.lists)+1))
	case doBlock:
		return pl.blockAndUnblock(h, o)
	case doOther:
		pl.note("%28s %s uses two other keys", pl.at(), h.name)
		for i := range 2 {
			if _, err := h.AllowN(context.Background(), fmt.Sprint("other", pl.count, i), 1); err != nil {
				return broken("an error", "AllowN of another key: %v", err)
			}
		}
		return nil
	}
	return pl.happen(h, o)
}

// happen plays what is no decision: a loss of the bucket, another policy, a
// process that ends or settles.
func (pl *player) happen(h *handle, o op) error {
	p := h.p
	pl.count++
	switch o.kind {
	case doReset:
		pl.note("%28s %s.Reset", pl.at(), h.name)
		pl.acted[p.id] = pl.count
		if err := h.Reset(context.Background(), simulatedKey); err != nil {
			return broken("an error", "Reset: %v", err)
		}
		pl.forgotten(p)
		p.local.reset()
	case doFlush:
		pl.note("%28s FLUSHALL", pl.at())
		pl.acted[len(pl.procs)] = pl.count
		pl.environment.flush()
		pl.forgotten(nil)
	case doSetPolicy:
		list := o.pick % len(pl.simulation.lists)
		pl.note("%28s p%d.SetPolicy(list %d)", pl.at(), p.id, list)
		return pl.setPolicy(p, list, p.override)
	case doDeath:
		pl.note("%28s p%d dies and starts again", pl.at(), p.id)
		pl.acted[p.id] = pl.count
		pl.taken = slices.DeleteFunc(pl.taken, func(k *taking) bool { return k.h.p == p })
		return pl.run(p.id, p.proc)
	case doSettle:
		pl.note("%28s p%d gives its leases back", pl.at(), p.id)
		pl.acted[p.id] = pl.count
		pl.environment.settle(p.store)
		pl.settled(pl.rules)
	}
	return nil
}

// at returns the current instant, for the log.
func (pl *player) at() moment { return moment(pl.oracle.now) }

type moment int64

func (m moment) String() string { return "at " + instant(int64(m)) }

// forgotten begins new timelines, because a process reset the bucket or, with
// nil, the key was lost. Other processes may still use leases from before.
func (pl *player) forgotten(by *process) {
	pl.reset()
	for _, p := range pl.procs {
		p.oldLease = 0
		if p.mayLease && p != by {
			p.oldLease, p.oldLeaseEnd = p.lease, pl.oracle.now+3_000_000
		}
	}
}

// cost returns how many tokens o asks for.
func (pl *player) cost(h *handle, o op) int64 {
	least := leastCapacity(h.requests)
	switch o.cost {
	case costLeft:
		if pl.left.n != never && pl.left.h != nil && pl.left.n > 0 {
			return pl.left.n
		}
		return least
	case costCapacity:
		return least
	case costPart:
		return 1 + int64(o.part*float64(least-1))
	case costMore:
		return least + 1
	}
	return o.n
}

// tokens returns how many tokens o asks for besides.
func (pl *player) tokens(h *handle, o op) int64 {
	if len(h.tokens) == 0 {
		return 0
	}
	least := leastCapacity(h.tokens)
	switch o.pick % 5 {
	case 0:
		return 0
	case 1:
		return least
	case 2:
		if pl.left.h != nil && pl.left.tokens > 0 {
			return pl.left.tokens
		}
	case 3:
		return 1 + o.n
	}
	return 1 + int64(o.part*float64(least-1))
}

func leastCapacity(rules []limitRule) int64 {
	least := rules[0].capacity
	for _, x := range rules {
		least = min(least, x.capacity)
	}
	return least
}
