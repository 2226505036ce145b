package core_test

import (
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

var turnsRounds = flag.Int("turns", soak.Budget(1000, 4000), "how many keys two definitions decide in turns")

// Two definitions of one limit decide a key in turns, with reservations far
// ahead that are canceled, and clocks that step back. No window admits more
// than the larger Capacity and what the definitions in use there refill in it.
func TestDefinitionsInTurnsAdmitNoMoreThanTheirMaxIn(t *testing.T) {
	t.Parallel()
	rounds := *turnsRounds
	base := rand.Uint64()
	for i := range uint64(rounds) {
		r := rand.New(rand.NewPCG(base+i, 0))
		defs := drawTurns(r)
		ops := drawTurnOps(r, defs)
		if log := playTurns(t, defs, ops); log != "" {
			t.Fatalf("a window admits more than its definitions allow, seed %d:\n%s", base+i, shrinkTurns(t, defs, ops, log))
		}
	}
}

// turns counts the tokens admitted in every window. Its time never goes back: a
// step back of the clock adds nothing.
type turns struct {
	defs    [2]core.Limit
	inUse   [2][2]int64 // from and until, µs
	due     [2]int64    // the last reservation under each
	written int64       // the last write
	now     int64       // µs
	wall    int64       // µs since 1970
	backs   []clockBack
	grants  []turn
}

type turn struct {
	at, n int64
	which int // definition
	hold  *core.Reservation
}

// clockBack is a step of the clock back, between two instants in µs since 1970.
type clockBack struct{ at, from, to int64 }

const endless = math.MaxInt64 / 4

// touch records that the store decided under a definition, and may have
// written.
func (u *turns) touch(which int) {
	if u.inUse[which][1] == 0 {
		u.inUse[which][0] = u.written
	}
	u.inUse[which][1] = endless
}

// wrote records a write under a definition. What the other one wrote is
// forgotten when its own refill has filled the bucket.
func (u *turns) wrote(which int) {
	u.touch(which)
	other := 1 - which
	if u.inUse[other][1] == endless {
		l := u.defs[other]
		u.inUse[other][1] = u.now + int64(float64(l.Capacity)/l.RefillRate+2)*longest(l)
		u.inUse[other][1] = max(u.inUse[other][1], u.due[other])
	}
	u.written = u.now
}

// longest and shortest are how long an interval of l may last, in µs.
func longest(l core.Limit) int64  { return lasts(l, 31, 25) }
func shortest(l core.Limit) int64 { return lasts(l, 28, 23) }

func lasts(l core.Limit, month, day int64) int64 {
	const hour = int64(time.Hour / time.Microsecond)
	switch {
	case l.RefillInterval == 12*core.Month:
		return (365 + month/31) * 24 * hour // 366 or 365
	case l.RefillInterval%core.Month == 0:
		return int64(l.RefillInterval/core.Month) * (month*24 + day - 24) * hour
	case l.Location != nil:
		return day * hour
	}
	return l.RefillInterval.Microseconds()
}

// number counts the steps of an Aligned limit until an instant.
func number(l core.Limit, wall int64) int64 {
	if l.Location == nil {
		return wall / l.RefillInterval.Microseconds()
	}
	at := time.UnixMicro(wall).In(l.Location)
	if months := int64(l.RefillInterval / core.Month); l.RefillInterval%core.Month == 0 {
		return (int64(at.Year())*12 + int64(at.Month()) - 1) / months
	}
	return time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC).Unix() / 86400
}

// most is how many tokens may be admitted from s to t, both included, and where
// they may come from.
func (u *turns) most(s, t int64) float64 {
	capacity, refill := int64(0), 0.0
	for i, l := range u.defs {
		from, to := max(s, u.inUse[i][0]), min(t, u.inUse[i][1])
		if from > to || u.inUse[i][1] == 0 {
			continue
		}
		capacity = max(capacity, l.Capacity)
		steps := float64(to-from) / float64(l.RefillInterval.Microseconds())
		switch {
		case l.Mode == core.Stepped:
			steps = math.Ceil(steps)
		case l.Mode == core.Aligned:
			if ahead := u.wall - u.now; len(u.backs) == 0 {
				steps = float64(number(l, to+ahead) - number(l, from+ahead))
				break
			}
			steps = math.Ceil(float64(to-from) / float64(shortest(l)))
			for _, b := range u.backs { // the clock passes the time in between twice
				if s <= b.at && b.at <= t {
					steps += float64(number(l, b.from) - number(l, b.to))
				}
			}
		}
		refill += steps * l.RefillRate
	}
	return float64(capacity) + refill + 1e-6*refill
}

// check returns what is wrong, if anything, after a grant.
func (u *turns) check(g turn) string {
	slices.SortStableFunc(u.grants, func(a, b turn) int { return int(min(1, max(-1, a.at-b.at))) })
	for i := range u.grants {
		sum := int64(0)
		for j := i; j < len(u.grants); j++ {
			sum += u.grants[j].n
			s, t := u.grants[i].at, u.grants[j].at
			if s > g.at || t < g.at || j+1 < len(u.grants) && u.grants[j+1].at == t {
				continue
			}
			if most := u.most(s, t); float64(sum) > most {
				return fmt.Sprintf("%d in %v from %v on, at most %.2f", sum, time.Duration(t-s)*time.Microsecond, time.UnixMicro(s+u.wall-u.now).UTC(), most)
			}
		}
	}
	return ""
}

func drawTurns(r *rand.Rand) (defs [2]core.Limit) {
	mode := r.IntN(5)
	for i := range defs {
		l := core.Limit{Name: "a", Capacity: 1 + r.Int64N(10)}
		if r.IntN(3) == 0 {
			mode = r.IntN(5)
		}
		l.RefillInterval = []time.Duration{time.Minute, time.Hour, 24 * time.Hour}[r.IntN(3)]
		l.RefillRate = float64([]int64{1, l.Capacity, 1 + r.Int64N(l.Capacity)}[r.IntN(3)])
		if l.Mode = core.Mode(mode % 3); mode >= 3 {
			l.Mode = core.Aligned
			l.RefillInterval = []time.Duration{24 * time.Hour, core.Month, 12 * core.Month}[r.IntN(3)]
			l = l.In(limitdraw.Zone([]string{"Pacific/Apia", "Europe/Berlin"}[r.IntN(2)]))
		}
		defs[i] = l
	}
	if mode == 4 { // one refills a thousand times as fast as the other
		zone := limitdraw.Zone("Pacific/Apia")
		defs[0] = core.PerDay(10).WithName("a").In(zone)
		defs[0].RefillRate = float64(1 + r.IntN(2))
		defs[1] = core.Limit{Name: "a", Capacity: 10, RefillRate: float64(1 + r.IntN(10)), RefillInterval: 12 * core.Month}.In(zone)
		defs[0].Capacity = 1 + r.Int64N(10)
		if r.IntN(2) == 0 {
			defs[0], defs[1] = defs[1], defs[0]
		}
	}
	return defs
}

// turnOp is one operation, as numbers that say what is drawn in it.
type turnOp struct {
	which, kind, times int
	n                  int64
	pick               float64
	move               time.Duration
}

func drawTurnOps(r *rand.Rand, defs [2]core.Limit) (ops []turnOp) {
	which, back := 0, r.IntN(3) == 0
	for range 40 {
		if r.IntN(3) == 0 {
			which = 1 - which
		}
		op := turnOp{which, r.IntN(10), 1 + r.IntN(5), 1 + r.Int64N(defs[which].Capacity), r.Float64(), 0}
		op.move = time.Duration(float64(defs[r.IntN(2)].RefillInterval) * []float64{0.1, 0.5, 1, 3}[r.IntN(4)]).Truncate(time.Microsecond)
		if op.kind < 2 && back && r.IntN(3) == 0 {
			op.move = -op.move
		}
		ops = append(ops, op)
	}
	return ops
}

// shrinkTurns leaves out what a failure does not need.
func shrinkTurns(t *testing.T, defs [2]core.Limit, ops []turnOp, log string) string {
	for again := true; again; {
		again = false
		for size := len(ops); size > 0; size /= 2 {
			for i := 0; i+size <= len(ops); {
				next := slices.Delete(slices.Clone(ops), i, i+size)
				if l := playTurns(t, defs, next); l != "" {
					ops, log, again = next, l, true
				} else {
					i++
				}
			}
		}
		for i := range ops {
			for _, f := range []func(op *turnOp){func(op *turnOp) { op.times = 1 }, func(op *turnOp) { op.times-- }, func(op *turnOp) { op.n = (op.n + 1) / 2 }} {
				next := slices.Clone(ops)
				if f(&next[i]); next[i] != ops[i] && next[i].times > 0 {
					if l := playTurns(t, defs, next); l != "" {
						ops, log, again = next, l, true
					}
				}
			}
		}
	}
	return log
}

// playTurns returns what happened if a promise was broken, or "".
func playTurns(t *testing.T, defs [2]core.Limit, ops []turnOp) string {
	clock := limittest.NewClock()
	store := core.NewMemoryStore(core.WithClock(clock.Now))
	u := &turns{defs: defs, wall: clock.Now().UnixMicro()}
	var log strings.Builder
	fmt.Fprintf(&log, "%v and %v\n", defs[0], defs[1])
	var limiters [2]*core.Limiter
	for i := range limiters {
		l, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: defs[i : i+1]}, core.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		limiters[i] = l
	}
	for _, op := range ops {
		l, n := limiters[op.which], op.n
		var later []int
		for i, g := range u.grants {
			if g.hold != nil && g.at > u.now {
				later = append(later, i)
			}
		}
		pick := -1
		if len(later) > 0 {
			pick = later[int(op.pick*float64(len(later)))]
		}
		switch {
		case op.kind < 3:
			d := op.move
			if op.kind == 2 { // to when a reservation is due
				if pick < 0 {
					continue
				}
				d = time.Duration(u.grants[pick].at-u.now) * time.Microsecond
			}
			if clock.Now().Add(d).Year() > 2100 {
				continue
			}
			if d < 0 {
				u.backs = append(u.backs, clockBack{u.now, u.wall, u.wall + d.Microseconds()})
			} else {
				u.now += d.Microseconds()
			}
			u.wall += d.Microseconds()
			clock.Move(d)
			fmt.Fprintf(&log, "the clock moves by %v to %v\n", d, clock.Now().UTC())
		case op.kind < 5:
			res, err := l.AllowN(t.Context(), "k", n)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&log, "%d takes %d: %v, %d left\n", op.which, n, res.Allowed, res.Remaining)
			if !res.Allowed {
				u.wrote(op.which) // the first denial under a definition stores it
				continue
			}
			u.wrote(op.which)
			g := turn{u.now, n, op.which, nil}
			u.grants = append(u.grants, g)
			if err := u.check(g); err != "" {
				return log.String() + err
			}
		case op.kind < 8:
			for range op.times {
				hold, err := l.Reserve(t.Context(), "k", n)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&log, "%d reserves %d: %v, %v, at %v\n", op.which, n, hold.OK(), hold.Delay(), clock.Now().Add(hold.Delay()).UTC())
				if !hold.OK() {
					u.wrote(op.which)
					continue
				}
				g := turn{u.now + hold.Delay().Microseconds(), n, op.which, hold}
				u.due[op.which] = max(u.due[op.which], g.at)
				u.wrote(op.which)
				u.grants = append(u.grants, g)
				if err := u.check(g); err != "" {
					return log.String() + err
				}
			}
		default:
			if pick < 0 || len(u.backs) > 0 {
				continue
			}
			fmt.Fprintf(&log, "%d's %d are canceled, due at %v\n", u.grants[pick].which, u.grants[pick].n, time.UnixMicro(u.grants[pick].at+u.wall-u.now).UTC())
			if err := u.grants[pick].hold.Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
			u.touch(u.grants[pick].which)
			u.grants = slices.Delete(u.grants, pick, pick+1)
		}
	}
	return ""
}
