// Package definitions simulates one bucket under several definitions of its
// limit, and has an oracle of what they have left.
package definitions

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
)

// Run is definitions of one limit, and what is done under them.
type Run struct {
	Defs []core.Limit
	Ops  []Op
}

// Op is one operation. Which definition decides it depends on Way.
type Op struct {
	Kind Kind
	Way  Way
	Def  int // of Way and Change
	N    int64
	Pick float64       // of the results that can be given back
	Move time.Duration // of the clock, before the operation; of Move itself it is relative: see Run.Defs
}

// Kind is what an Op does.
type Kind int

// The kinds of Op.
const (
	Move Kind = iota // the clock alone
	Peek
	Take
	Settle
	SettleAbove
	Undo
	Refund
	Debit
	Reserve
	Cancel
	SetPolicy
	SetOverride
	SetException
	MoveToEvent // the clock, to where the last denial, a hold or the reset points
)

func (k Kind) String() string {
	return [...]string{"move", "peek", "take", "settle", "settle above", "undo", "refund", "debit", "reserve", "cancel", "set policy", "set override", "set exception", "move to event"}[k]
}

// Way is how a request comes under a definition.
type Way int

// The ways.
const (
	Main       Way = iota // a limiter whose definition changes
	WithLimits            // a limiter of WithLimits
	Other                 // a limiter of its own, of a policy of the same name
)

func (w Way) String() string { return [...]string{"main", "with limits", "other"}[w] }

func (o Op) String() string {
	return fmt.Sprintf("{Kind: %d, Way: %d, Def: %d, N: %d, Pick: %.3f, Move: %d}", o.Kind, o.Way, o.Def, o.N, o.Pick, o.Move)
}

// String shows r as Go.
func (r Run) String() string {
	var b strings.Builder
	for i, d := range r.Defs {
		fmt.Fprintf(&b, "%d: capacity %d, %v every %v, %v", i, d.Capacity, d.RefillRate, d.RefillInterval, d.Mode)
		if d.Location != nil {
			fmt.Fprintf(&b, " in %v", d.Location)
		}
		if d.Unit != "" {
			fmt.Fprintf(&b, " of %s, held for %v", d.Unit, d.MaxHold)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var holds = []time.Duration{time.Millisecond, time.Second, time.Minute, 7 * time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour}

// Draw draws a run. The last definition has the largest Capacity: under it
// everything that was used counts.
func Draw(r *rand.Rand) Run {
	var run Run
	n := 2 + r.IntN(3)
	units := r.IntN(2) == 0
	scale, mode := r.IntN(4), r.IntN(4)
	most := int64(1 + r.IntN([]int{5, 20, 100, 1000}[r.IntN(4)]))
	for i := range n {
		l := core.Limit{Capacity: 1 + r.Int64N(most)}
		if i == n-1 {
			l.Capacity = most + r.Int64N(3)
		}
		if r.IntN(3) == 0 {
			mode = r.IntN(4)
		}
		if r.IntN(3) == 0 {
			scale = r.IntN(4)
		}
		l.RefillInterval = [][]time.Duration{
			{time.Second, 2 * time.Second, 7 * time.Second},
			{time.Minute, 90 * time.Second, 10 * time.Minute},
			{time.Hour, 7 * time.Hour, 24 * time.Hour},
			{24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour},
		}[scale][r.IntN(3)]
		l.RefillRate = float64([]int64{1, l.Capacity, 1 + r.Int64N(l.Capacity)}[r.IntN(3)])
		if mode < 3 {
			l.Mode = core.Mode(mode)
			if l.Mode == core.Continuous {
				l.RefillInterval = min(l.RefillInterval, 24*time.Hour)
			}
		} else {
			l.Mode = core.Aligned
			l.RefillInterval = []time.Duration{24 * time.Hour, core.Month, 3 * core.Month}[r.IntN(3)]
			l = l.In(limitdraw.Zone([]string{"Pacific/Apia", "Europe/Berlin", "UTC"}[r.IntN(3)]))
		}
		if float64(l.Capacity)/l.RefillRate*l.RefillInterval.Hours() > 90*365*24 { // a bucket must fill in 100 years
			l.RefillRate = float64(l.Capacity)
		}
		l.Name = "a"
		if units {
			l.Unit = "tokens"
			if r.IntN(5) > 0 {
				l.MaxHold = holds[r.IntN(len(holds))]
			}
		}
		run.Defs = append(run.Defs, l)
	}
	def, way := 0, Main
	for range 3 + r.IntN(28) {
		if r.IntN(3) == 0 {
			def, way = r.IntN(n), Way(r.IntN(3))
		}
		op := Op{Kind: []Kind{Move, Move, Peek, Take, Take, Take, Take, Settle, SettleAbove, Undo, Refund, Debit, Reserve, Cancel,
			SetPolicy, SetOverride, SetException, MoveToEvent, MoveToEvent}[r.IntN(19)], Way: way, Def: def, N: 1 + r.Int64N(run.Defs[def].Capacity), Pick: r.Float64()}
		if r.IntN(4) == 0 {
			op.N = 1 + op.N/5
		}
		if op.Kind == SetPolicy || op.Kind == SetOverride || op.Kind == SetException {
			op.Def = r.IntN(n+1) - 1 // -1: none
			if op.Kind == SetPolicy {
				op.Def = max(0, op.Def)
			}
		}
		switch op.Kind {
		case Move:
			of := run.Defs[r.IntN(n)]
			base := of.RefillInterval
			if of.MaxHold > 0 && r.IntN(2) == 0 {
				base = of.MaxHold
			}
			op.Move = time.Duration(float64(base) * []float64{0.01, 0.3, 0.5, 1, 3}[r.IntN(5)]).Truncate(time.Microsecond)
			if r.IntN(4) == 0 {
				op.Move = time.Duration(1+r.IntN(3)) * time.Microsecond
			}
		case MoveToEvent:
			op.Move = time.Duration(r.IntN(3)-1) * time.Microsecond
		}
		run.Ops = append(run.Ops, op)
	}
	return run
}
