package redisstore_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// life is a list of random calls that several processes make on one key. It is drawn in advance, as plain data, so that a
// test can leave out operations and still play the rest.
type life struct {
	seed  uint64
	start int64          // µs since 1970
	lists [][]core.Limit // the versions and tiers of the policy
	procs []proc
	ops   []op
	last  bool // ends with a check of ResetAfter
}

// proc is one process: a limiter with its own store on a shared Redis.
type proc struct {
	list  int   // the version of the policy that it starts with
	lease int64 // the argument of WithLease
	deny  bool  // it has a deny cache
}

// op is one operation. The meaning of its numbers depends on what happened before: an index is taken modulo the number of
// items.
type op struct {
	kind  opKind
	who   int
	tier  int // 0: the process's own list; i: WithLimits(lists[i-1])
	cost  costKind
	n     int64 // of costN
	times int   // how often an allow is repeated
	pick  int   // which reservation, decision or list
	move  move  // of the clock, before
	part  float64
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
	doCorrect // settles a decision with another cost
	// These are not drawn: an operation can be one of them in addition.
	isUnits
	isTogether
	isTier
	isLease
	isVersion
	isForward
	isBack
	kinds
)

var kindNames = [kinds]string{
	"AllowN", "AllowAll", "Peek", "Reserve", "Cancel", "Refund", "Undo", "Wait", "Reset", "SetPolicy", "FLUSHALL",
	"death", "leases end", "retry", "other key", "AtMost", "Debit", "Settle", "units", "together", "WithLimits", "lease", "versions", "clock on", "clock back",
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

// drawLife draws the life of a seed. Without leases it can be played on a MemoryStore too.
func drawLife(seed uint64, leases bool) *life {
	r := rand.New(rand.NewPCG(seed, 0x11fe))
	l := &life{seed: seed, last: r.IntN(2) == 0}
	l.start = time.Date(2000+r.IntN(60), time.January, 1+r.IntN(365), r.IntN(24), r.IntN(60), r.IntN(60), 0, time.UTC).UnixMicro() + r.Int64N(1_000_000)
	leases = leases && r.IntN(3) == 0
	l.lists = drawLists(r, leases)
	for range 1 + r.IntN(4) {
		p := proc{deny: r.IntN(2) == 0}
		if r.IntN(3) == 0 {
			p.list = r.IntN(len(l.lists))
		}
		if leases && r.IntN(3) > 0 {
			p.lease = []int64{1, 5, 20, 100}[r.IntN(4)]
		}
		l.procs = append(l.procs, p)
	}
	still, steps := r.IntN(3) == 0, r.IntN(3) == 0 // still: the clock rarely moves; steps: it steps back at times
	for range 10 + r.IntN(51) {
		l.ops = append(l.ops, drawOp(r, l, leases, still, steps))
	}
	return l
}

// weights say how often each kind is drawn.
var weights = [...]int{
	doAllow: 30, doAll: 6, doPeek: 5, doReserve: 14, doCancel: 10, doRefund: 5, doUndo: 7, doWait: 4, doReset: 2,
	doSetPolicy: 5, doFlush: 2, doDeath: 2, doSettle: 3, doRetry: 10, doOther: 1,
	doAtMost: 6, doDebit: 4, doCorrect: 6,
}

func drawOp(r *rand.Rand, l *life, leases, still, steps bool) op {
	o := op{who: r.IntN(len(l.procs)), pick: r.IntN(1 << 16), part: r.Float64(), times: 1, n: 1 + r.Int64N(9)}
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
	if len(l.lists) > 1 && r.IntN(3) == 0 {
		o.tier = 1 + r.IntN(len(l.lists))
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

// String returns the setup of the life in readable form. The player's log has the operations.
func (l *life) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the clock starts at %s\n", time.UnixMicro(l.start).UTC().Format("2006-01-02 15:04:05.000000"))
	for i, list := range l.lists {
		fmt.Fprintf(&b, "list %d: %s\n", i, listText(list))
	}
	for i, p := range l.procs {
		fmt.Fprintf(&b, "process %d: list %d, WithLease(%d), deny cache %v\n", i, p.list, p.lease, p.deny)
	}
	return b.String()
}

func listText(list []core.Limit) string {
	var parts []string
	for _, l := range list {
		parts = append(parts, fmt.Sprintf("{%q capacity %d, %v every %v, %v}", l.Name, l.Capacity, l.RefillRate, l.RefillInterval, l.Mode))
	}
	return strings.Join(parts, " ")
}

// drawLists draws the versions and tiers of a policy. Most differ in one field only: lists with nothing in common affect
// each other less.
func drawLists(r *rand.Rand, leases bool) [][]core.Limit {
	first := []core.Limit{drawLivesLimit(r, leases)}
	for r.IntN(3) == 0 && len(first) < 4 {
		first = append(first, drawLivesLimit(r, leases))
	}
	for i := range first {
		if r.IntN(2) == 0 {
			first[i].Name = string(rune('a' + i))
		}
	}
	lists := [][]core.Limit{first}
	for count := []int{1, 2, 2, 2, 3, 4}[r.IntN(6)]; len(lists) < count; {
		next := slices.Clone(lists[r.IntN(len(lists))])
		i := r.IntN(len(next))
		switch other := drawLivesLimit(r, leases); r.IntN(8) {
		case 0:
			next[i].Capacity = other.Capacity
		case 1:
			next[i].RefillRate = other.RefillRate
		case 2:
			next[i].RefillInterval = other.RefillInterval
		case 3:
			next[i].Mode = core.Mode(r.IntN(3))
		case 4:
			next = append(next, other.WithName([]string{"", "n"}[r.IntN(2)]))
		case 5:
			next[i].Name = []string{"", "a", "b", "c", "api"}[r.IntN(5)]
		case 6:
			if len(next) > 1 {
				next = slices.Delete(next, i, i+1)
			}
		case 7:
			next[0], next[i] = next[i], next[0]
		}
		if validList(next) {
			lists = append(lists, next)
		}
	}
	return lists
}

// drawLivesLimit draws a limit that integers hold exactly, so that the oracle is exact to the token.
func drawLivesLimit(r *rand.Rand, leases bool) core.Limit {
	for {
		l := core.Limit{Mode: core.Mode([]int{0, 0, 1, 2}[r.IntN(4)])}
		l.Capacity = 1 + r.Int64N(int64(math.Pow10(1+r.IntN(3))))
		if leases {
			l.Capacity = 10 * (1 + r.Int64N(int64(math.Pow10(1+r.IntN(3)))))
		}
		l.RefillInterval = []time.Duration{
			100 * time.Millisecond, time.Second, time.Second, 10 * time.Second, time.Minute, time.Hour, 24 * time.Hour,
			333_333 * time.Microsecond, 7 * time.Second,
		}[r.IntN(9)]
		l.RefillRate = []float64{1, float64(1 + r.IntN(20)), float64(l.Capacity), float64(l.Capacity), 3 * float64(l.Capacity), 0.5, 2.5, 0.1}[r.IntN(8)]
		if validList([]core.Limit{l}) {
			return l
		}
	}
}

// validList reports whether a constructor accepts the list and integers hold its limits exactly.
func validList(list []core.Limit) bool {
	names := make(map[string]bool)
	for _, l := range list {
		if l.Name != "" && names[l.Name] {
			return false
		}
		names[l.Name] = true
		if _, den := fraction(l.RefillRate); float64(den)*float64(l.RefillInterval.Microseconds())*float64(l.Capacity) > 1<<49 {
			return false
		}
		if float64(l.Capacity)/l.RefillRate*l.RefillInterval.Hours() > 60*24 {
			return false // so that the bucket recovers within decades
		}
	}
	return true
}

// fraction returns a rate as a fraction: 1/10 for 0.1.
func fraction(rate float64) (num, den int64) {
	for den = 1; ; den++ {
		if num = int64(math.Round(rate * float64(den))); float64(num)/float64(den) == rate {
			return num, den
		}
	}
}
