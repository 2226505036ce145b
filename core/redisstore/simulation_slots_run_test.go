package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Simulations of slots: what is drawn.

// slotSimulation is a list of random calls that several processes make on one
// key of a policy with slots and estimates.
type slotSimulation struct {
	seed    uint64
	start   int64          // µs since 1970
	lists   [][]core.Limit // the versions of the policy
	procs   []proc
	ops     []slotOp
	outages bool
}

// slotOp is one operation.
type slotOp struct {
	kind   slotKind
	who    int
	n      int64 // requests
	tokens float64
	pick   int
	away   bool
	move   slotMove
	part   float64
}

type slotKind uint8

const (
	slotAllow slotKind = iota
	slotFill           // as many as must be free
	slotAtMost
	slotTogether
	slotParts // several charges of one limiter, each of which is a taking
	slotPeek
	slotRelease
	slotAgain // releases a decision that has been released
	slotHold
	slotSettle
	slotUndo
	slotSetPolicy
	slotDeath
	slotKinds
)

var slotKindNames = [slotKinds]string{"Allow", "fill", "AtMost", "together", "parts", "Peek", "Release", "Release again", "Hold", "Settle", "Undo", "SetPolicy", "death"}

var slotWeights = [slotKinds]int{slotAllow: 30, slotFill: 8, slotAtMost: 6, slotTogether: 6, slotParts: 8, slotPeek: 4, slotRelease: 18, slotAgain: 4,
	slotHold: 10, slotSettle: 8, slotUndo: 5, slotSetPolicy: 5, slotDeath: 2}

// slotMove is how far the clock goes before an operation.
type slotMove uint8

const (
	stay slotMove = iota
	toEnd
	oneMicro
	partOfHold
	beyond
	back
)

// furthestBack is how far the clock steps back at most.
const furthestBack = 200 * time.Second

// pair is the policy that is charged together with the other.
var pair = []core.Limit{core.InFlight(2).WithName("pair").WithMaxHold(time.Second)}

func drawSlotSimulation(seed uint64) *slotSimulation {
	r := rand.New(rand.NewPCG(seed, 0x5107))
	sim := &slotSimulation{seed: seed, outages: r.IntN(4) == 0}
	sim.start = time.Date(2000+r.IntN(60), time.January, 1+r.IntN(365), 0, 0, 0, 0, time.UTC).UnixMicro() + r.Int64N(1_000_000_000)
	holds := []time.Duration{time.Millisecond, 1234 * time.Microsecond, 100 * time.Millisecond, time.Second, 7 * time.Second, time.Minute, 90 * time.Second}
	hold := holds[r.IntN(len(holds))]
	other := func() time.Duration {
		if r.IntN(2) == 0 {
			return hold
		}
		return holds[r.IntN(len(holds))]
	}
	daily, tokensToo, gpus := 5+r.Int64N(60), r.IntN(2) == 0, r.IntN(4) == 0
	most := 1000 * (1 + r.Int64N(9))
	always := r.IntN(3) > 0 // all versions have slots
	sizes := []int{1, 2, 3, 5, 8, 20, 70, 300}
	largest := 1 + r.IntN(len(sizes))
	for range 1 + r.IntN(3) {
		var list []core.Limit
		slots := always || len(sim.lists) == 0 || r.IntN(2) == 0
		if slots {
			list = append(list, core.InFlight(sizes[r.IntN(largest)]).WithName("at-once").WithMaxHold(other()))
		}
		if !slots || r.IntN(3) == 0 {
			list = append(list, core.Limit{Name: "daily", Capacity: daily, RefillRate: float64(daily), RefillInterval: 100 * 24 * time.Hour, Mode: core.Stepped})
		}
		if tokensToo {
			x := core.Limit{Name: "t", Capacity: most, RefillRate: float64(most), RefillInterval: 100 * 24 * time.Hour, Mode: core.Stepped, Unit: tokens}
			if r.IntN(4) > 0 {
				x.MaxHold = other()
			}
			list = append(list, x)
		}
		if gpus {
			list = append(list, core.InFlight(1+r.IntN(8)).WithName("gpus").WithUnit("gpus").WithMaxHold(other()))
		}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		sim.lists = append(sim.lists, list)
	}
	for range 1 + r.IntN(4) {
		p := proc{}
		if r.IntN(2) == 0 {
			p.list = r.IntN(len(sim.lists))
		}
		if always {
			if p.deny = r.IntN(2) == 0; r.IntN(3) == 0 {
				p.lease = 20
			}
		}
		sim.procs = append(sim.procs, p)
	}
	steps, still, away := r.IntN(3) == 0, r.IntN(3) == 0, false
	total := 0
	for _, w := range slotWeights {
		total += w
	}
	for range 20 + r.IntN(80) {
		o := slotOp{who: r.IntN(len(sim.procs)), n: 1 + r.Int64N(1+r.Int64N(4)), tokens: r.Float64(), pick: r.IntN(1 << 16), part: r.Float64()}
		at := r.IntN(total)
		for k, w := range slotWeights {
			if at -= w; at < 0 {
				o.kind = slotKind(k)
				break
			}
		}
		switch m := r.IntN(100); {
		case m < 45 || still && m < 80:
		case m < 60:
			o.move = toEnd
		case m < 68:
			o.move = oneMicro
		case m < 90:
			o.move = partOfHold
		case m < 94:
			o.move = beyond
		case steps:
			o.move = back
		}
		if away = away != (r.IntN(6) == 0); sim.outages {
			o.away = away
		}
		sim.ops = append(sim.ops, o)
	}
	return sim
}

func (sim *slotSimulation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the clock starts at %s\n", time.UnixMicro(sim.start).UTC().Format("2006-01-02 15:04:05.000000"))
	for i, list := range sim.lists {
		fmt.Fprintf(&b, "list %d:", i)
		for _, x := range list {
			fmt.Fprintf(&b, " %s %d %s hold %v;", x.Name, x.Capacity, x.Unit, x.MaxHold)
		}
		b.WriteByte('\n')
	}
	for i, p := range sim.procs {
		fmt.Fprintf(&b, "process %d: list %d, WithLease(%d), deny cache %v\n", i, p.list, p.lease, p.deny)
	}
	return b.String()
}
