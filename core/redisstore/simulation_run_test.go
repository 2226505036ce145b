package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// The simulation: what is drawn. drawSimulation makes it of a seed, and the
// player plays it. It is plain data, drawn in advance, so that shrink can leave
// out operations and still play the rest.

// simulation is a list of random calls that several processes make on one key.
type simulation struct {
	seed    uint64
	start   int64          // µs since 1970
	lists   [][]core.Limit // the versions and tiers of the policy
	procs   []proc
	ops     []op
	outages bool // the store is away at times
	last    bool // it ends with a check of ResetAfter
}

// proc is one process: a limiter with a store of its own on the shared buckets.
type proc struct {
	override int   // 0: none; i: its policy has lists[i-1] for the key
	list     int   // the version of the policy that it starts with
	lease    int64 // the argument of WithLease
	deny     bool  // it has a deny cache
}

// op is one operation. The meaning of its numbers depends on what happened
// before: an index is taken modulo the number of items.
type op struct {
	kind  opKind
	who   int
	tier  int // 0: the process's own list; i: WithLimits(lists[i-1])
	cost  costKind
	n     int64   // of costN
	times int     // how often an allow is repeated
	away  bool    // the store is away
	pick  int     // which reservation, decision or list
	move  move    // of the clock, before
	part  float64 // a share from 0 to 1, such as of an interval or a capacity
}

// opKind is what an operation does.
type opKind uint8

const (
	doAllow opKind = iota
	doAll
	doPeek
	doReserve
	doCancel
	doRefund
	doUndo
	doWait
	doReset
	doSetPolicy
	doFlush
	doDeath
	doSettle // gives leases back as if they were idle
	doRetry  // waits for the last RetryAfter and repeats the request
	doOther  // uses other keys of the store
	doAtMost
	doDebit
	doCorrect  // settles a decision with another cost
	doOverride // gives the key limits of its own, others, or none
	doExcept   // gives it an exception of such limits, another, or none
	doBlock    // blocks it, and ends that
	// These are not drawn: an operation can be one of them in addition.
	isUnits
	isTogether
	isBeside   // together with a key that can't be used
	isSplit    // in two charges of one bucket
	isTokens   // it takes another unit than requests
	isCalendar // a limit is on a calendar
	isOverride
	isException
	isTier
	isLease
	isFallback // the store is away, or was when what comes back was taken
	isVersion
	isForward
	isBack
	kinds
)

var kindNames = [kinds]string{
	"AllowN", "AllowAll", "Peek", "Reserve", "Cancel", "Refund", "Undo", "Wait", "Reset", "SetPolicy", "FLUSHALL",
	"death", "leases end", "retry", "other key", "AtMost", "Debit", "Settle", "override", "exception", "block",
	"units", "together", "bad key", "split", "tokens", "calendar", "overridden", "excepted", "WithLimits", "lease", "fallback", "versions", "clock on", "clock back",
}

// costKind is how an operation chooses its cost.
type costKind uint8

const (
	costN        costKind = iota
	costLeft              // the Remaining of the last result
	costCapacity          // the smallest capacity
	costPart              // a part of it
	costMore              // one more than the smallest capacity
	costs
)

// move is how far the clock goes before an operation.
type move uint8

const (
	moveNone      move = iota
	moveInstant        // 1 µs
	moveShort          // up to 60 ms, as between requests on busy keys
	moveSeconds        // up to 3 s, as leases last
	movePart           // a part of an interval, or some
	moveBoundary       // just before, onto or just after a multiple of an interval
	moveDue            // just before, onto or just after the instant of a reservation
	moveRetry          // just before, onto or just after the last RetryAfter
	moveLong           // many intervals
	moveBack           // a step back
	moveBackShort      // a small one
)

// drawSimulation draws the simulation of a seed. Without leases it can be
// played on a MemoryStore too.
func drawSimulation(seed uint64, leases bool) *simulation {
	r := rand.New(rand.NewPCG(seed, 0x11fe))
	sim := &simulation{seed: seed, last: r.IntN(2) == 0}
	sim.start = time.Date(2000+r.IntN(60), time.January, 1+r.IntN(365), r.IntN(24), r.IntN(60), r.IntN(60), 0, time.UTC).UnixMicro() + r.Int64N(1_000_000)
	leases = leases && r.IntN(3) == 0
	d := limitDraw{r, leases, r.IntN(3) == 0, r.IntN(4) == 0}
	if leases { // these are fewer simulations
		d.units, d.calendars = r.IntN(2) == 0, r.IntN(2) == 0
	}
	sim.lists = d.lists()
	if x := sim.lists[0][0]; x.Location != nil && r.IntN(2) == 0 {
		sim.start = clocksAreSet(time.UnixMicro(sim.start), x.Location).Add(-time.Duration(r.Int64N(int64(72 * time.Hour)))).UnixMicro()
	}
	for range 1 + r.IntN(4) {
		p := proc{deny: r.IntN(2) == 0}
		if r.IntN(3) == 0 {
			p.list = r.IntN(len(sim.lists))
		}
		if r.IntN(4) == 0 {
			p.override = 1 + r.IntN(len(sim.lists))
		}
		if leases && r.IntN(3) > 0 {
			p.lease = []int64{1, 5, 20, 100}[r.IntN(4)]
		}
		sim.procs = append(sim.procs, p)
	}
	still, steps := r.IntN(3) == 0, r.IntN(3) == 0 // still: the clock rarely moves; steps: it steps back at times
	sim.outages = r.IntN(4) == 0
	away := false
	for range 10 + r.IntN(51) {
		if away = away != (r.IntN(6) == 0); !sim.outages {
			away = false
		}
		o := drawOp(r, sim, leases, still, steps)
		o.away = away
		sim.ops = append(sim.ops, o)
	}
	return sim
}

// weights say how often each kind is drawn.
var weights = [...]int{
	doAllow: 30, doAll: 6, doPeek: 5, doReserve: 14, doCancel: 10, doRefund: 5, doUndo: 7, doWait: 4, doReset: 2,
	doSetPolicy: 5, doFlush: 2, doDeath: 2, doSettle: 3, doRetry: 10, doOther: 1,
	doAtMost: 6, doDebit: 4, doCorrect: 6, doOverride: 4, doExcept: 4, doBlock: 3,
}

func drawOp(r *rand.Rand, sim *simulation, leases, still, steps bool) op {
	o := op{who: r.IntN(len(sim.procs)), pick: r.IntN(1 << 16), part: r.Float64(), times: 1, n: 1 + r.Int64N(9)}
	total := 0
	for _, w := range weights {
		total += w
	}
	at := r.IntN(total)
	for k, w := range weights {
		if at -= w; at < 0 {
			o.kind = opKind(k)
			break
		}
	}
	if len(sim.lists) > 1 && r.IntN(3) == 0 {
		o.tier = 1 + r.IntN(len(sim.lists))
	}
	o.cost = []costKind{costN, costN, costLeft, costLeft, costLeft, costCapacity, costCapacity, costPart, costPart, costPart}[r.IntN(10)]
	if r.IntN(60) == 0 {
		o.cost = costMore
	}
	if leases && o.kind == doAllow && r.IntN(2) == 0 {
		o.cost, o.n, o.times, o.tier = costN, 1, 2+r.IntN(30), o.tier*r.IntN(2)
	}
	switch m := r.IntN(100); {
	case m < 40:
	case m < 45:
		o.move = moveInstant
	case m < 60 || still:
		o.move = moveShort
	case m < 67:
		o.move = moveSeconds
	case m < 79:
		o.move = movePart
	case m < 84:
		o.move = moveBoundary
	case m < 90:
		o.move = moveDue
	case m < 95:
		o.move = moveRetry
	default:
		o.move = moveLong
	}
	if steps && r.IntN(8) == 0 {
		o.move = moveBack + move(r.IntN(2))
	}
	return o
}

// String returns the setup of the simulation in readable form. The player's log
// has the operations.
func (sim *simulation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the clock starts at %s\n", time.UnixMicro(sim.start).UTC().Format("2006-01-02 15:04:05.000000"))
	if sim.outages {
		b.WriteString("the store is away at times\n")
	}
	for i, list := range sim.lists {
		fmt.Fprintf(&b, "list %d: %s\n", i, listText(list))
	}
	for i, p := range sim.procs {
		fmt.Fprintf(&b, "process %d: list %d, override by list %d (-1: none), WithLease(%d), deny cache %v\n", i, p.list, p.override-1, p.lease, p.deny)
	}
	return b.String()
}
