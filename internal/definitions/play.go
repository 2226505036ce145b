package definitions

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// World is a store that a run is played on.
type World struct {
	Store core.Store
	Clock *limittest.Clock
	// Fork returns a copy of both. If it is nil, delays are not tried out.
	Fork func() (core.Store, *limittest.Clock)
	Key  string
}

// taken is what a run may give back.
type taken struct {
	id  int
	way Way
	def int // of a way other than Main
	n   int64
	res core.Result
	r   *core.Reservation
}

type player struct {
	t                           testing.TB
	run                         Run
	w                           World
	model                       *Bucket // nil: the documentation does not say any more what is left
	main                        *core.Limiter
	with, other                 []*core.Limiter
	policy, override, exception int
	taken                       []*taken
	ids                         int
	log                         strings.Builder
	seen                        []string
	event                       time.Duration // after now
	Decisions                   int
}

var quiet = core.WithLogger(slog.New(slog.DiscardHandler))

// Play plays run on w. It returns what a caller saw of each operation, how many
// decisions there were, and what is wrong, or "".
func Play(t testing.TB, run Run, w World) (seen []string, decisions int, wrong string) {
	p := &player{t: t, run: run, w: w, model: &Bucket{defs: run.Defs, writer: -1}, override: -1, exception: -1}
	if p.w.Key == "" {
		p.w.Key = "ann"
	}
	p.main = p.limiter(w.Store, 0)
	base := p.limiter(w.Store, 0)
	for i, d := range run.Defs {
		p.other = append(p.other, p.limiter(w.Store, i))
		l, err := base.WithLimits(d)
		if err != nil {
			t.Fatal(err)
		}
		p.with = append(p.with, l)
	}
	fmt.Fprintf(&p.log, "at %v\n%v", w.Clock.Now(), run)
	for _, op := range run.Ops {
		if wrong = p.do(op); wrong == "" {
			wrong = p.check(op)
		}
		if wrong != "" {
			return p.seen, p.Decisions, p.log.String() + wrong
		}
	}
	return p.seen, p.Decisions, ""
}

func (p *player) limiter(s core.Store, def int) *core.Limiter {
	l, err := core.NewLimiter(s, core.Policy{Name: "api", Limits: p.run.Defs[def : def+1], OnFailure: core.FailClosed}, quiet)
	if err != nil {
		p.t.Fatal(err)
	}
	return l
}

func (p *player) now() int64 { return p.w.Clock.Now().UnixMicro() }

// current is the definition of the limiter whose definition changes.
func (p *player) current() int {
	switch {
	case p.exception >= 0:
		return p.exception
	case p.override >= 0:
		return p.override
	}
	return p.policy
}

func (p *player) by(way Way, def int) (*core.Limiter, int) {
	switch way {
	case Main:
		return p.main, p.current()
	case WithLimits:
		return p.with[def], def
	}
	return p.other[def], def
}

func (p *player) units(n int64) core.Units {
	if unit := p.run.Defs[0].Unit; unit != "" {
		return core.Units{unit: n, core.Requests: 0}
	}
	return core.Units{core.Requests: n}
}

func (p *player) must(err error) {
	if err != nil {
		p.t.Fatalf("%s%v", p.log.String(), err)
	}
}

func (p *player) note(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	p.seen = append(p.seen, s)
	fmt.Fprintf(&p.log, "%v  %s\n", p.w.Clock.Now().UTC().Format("2006-01-02 15:04:05.000000"), s)
}

// decided moves the model under def. write is whether the decision was stored.
func (p *player) decided(def int, change bool) *Bucket {
	if p.model == nil {
		return &Bucket{defs: p.run.Defs, writer: def}
	}
	next, ok := p.model.under(def, p.now())
	if !ok || next.lost {
		p.model = nil
		return &Bucket{defs: p.run.Defs, writer: def}
	}
	if change || p.model.writer >= 0 && !same(p.run.Defs[p.model.writer], p.run.Defs[def]) {
		next.written = p.now()
		p.model = next
	}
	return next
}

func (b *Bucket) hold(h held) {
	b.held = append(b.held, h)
	slices.SortStableFunc(b.held, func(a, c held) int { return cmp.Compare(a.end, c.end) })
}

// end ends a hold, and reports whether it was there.
func (b *Bucket) end(id int) bool {
	i := slices.IndexFunc(b.held, func(h held) bool { return h.id == id })
	if i < 0 {
		return false
	}
	n := b.held[i].n
	b.held = slices.Delete(b.held, i, i+1)
	b.give(float64(n))
	return true
}

func (b *Bucket) refund(n int64) {
	rest := n
	for i := range b.held {
		if h := &b.held[i]; h.nothing {
			used := min(rest, h.n)
			h.n, rest = h.n-used, rest-used
		}
	}
	b.held = slices.DeleteFunc(b.held, func(h held) bool { return h.n == 0 })
	b.give(float64(n))
}

func (p *player) do(op Op) (wrong string) {
	ctx := context.Background()
	if op.Def < 0 && op.Kind < SetPolicy {
		return ""
	}
	l, def := p.main, p.current()
	if op.Kind < SetPolicy {
		l, def = p.by(op.Way, op.Def)
	}
	limit := p.run.Defs[def]
	n := 1 + (op.N-1)%limit.Capacity
	switch op.Kind {
	case Move:
		p.w.Clock.Move(op.Move)
		p.note("moved by %v", op.Move)
	case MoveToEvent:
		d := p.event + op.Move
		if p.event == 0 || d <= 0 || d > 4*365*24*time.Hour {
			return ""
		}
		p.w.Clock.Move(d)
		p.note("moved by %v to an event", d)
	case Peek:
		p.Decisions++
		res, err := l.Peek(ctx, p.w.Key)
		p.must(err)
		p.note("%v %d: peek: %d, reset %v", op.Way, def, res.Remaining, res.ResetAfter)
		if m := p.decided(def, false); p.model != nil {
			wrong = m.compare(def, res.Remaining)
		}
		if p.w.Fork != nil && wrong == "" {
			wrong = p.full(def, res.ResetAfter, "Peek")
		}
	case Take, Reserve:
		p.Decisions++
		if op.Kind == Reserve && limit.Unit != "" {
			return ""
		}
		before, err := p.other[def].PeekUnits(ctx, p.w.Key, p.units(n))
		p.must(err)
		k := &taken{id: p.ids, way: op.Way, def: op.Def, n: n}
		p.ids++
		if op.Kind == Take {
			res, err := l.AllowUnits(ctx, p.w.Key, p.units(n))
			p.must(err)
			p.note("%v %d: take %d: %v, %d left, retry %v, reset %v", op.Way, def, n, res.Allowed, res.Remaining, res.RetryAfter, res.ResetAfter)
			if res.Allowed != before.Allowed {
				return fmt.Sprintf("PeekUnits said %v", before.Allowed)
			}
			m := p.decided(def, res.Allowed)
			if res.Allowed {
				k.res = res
				p.taken = append(p.taken, k)
				m.left -= float64(n)
				if limit.MaxHold > 0 {
					m.hold(held{id: k.id, n: n, end: p.now() + limit.MaxHold.Microseconds() - 1, returns: true})
				}
			} else {
				p.event = res.RetryAfter
				if p.w.Fork != nil {
					wrong = p.retry(def, n, res.RetryAfter, "a denial")
				}
			}
			if p.model != nil && wrong == "" {
				wrong = m.compare(def, res.Remaining)
			}
			if p.w.Fork != nil && wrong == "" {
				wrong = p.full(def, res.ResetAfter, "a decision")
			}
			return wrong
		}
		sameDef := p.model != nil && (p.model.writer < 0 || same(p.run.Defs[p.model.writer], limit))
		r, err := l.Reserve(ctx, p.w.Key, n)
		p.must(err)
		p.note("%v %d: reserve %d: %v, after %v", op.Way, def, n, r.OK(), r.Delay())
		m := p.decided(def, r.OK())
		if !r.OK() {
			return ""
		}
		due := p.now() + r.Delay().Microseconds()
		if want := max(p.now()+before.RetryAfter.Microseconds(), p.lastReserved(m)); sameDef && p.model != nil && due != want {
			return fmt.Sprintf("a reservation is due at %d, but its tokens are there at %d", due, want)
		}
		k.r = r
		p.taken = append(p.taken, k)
		p.event = r.Delay()
		m.left -= float64(n)
		m.hold(held{id: k.id, n: n, end: due, nothing: r.Delay() == 0})
	case Settle, SettleAbove, Undo, Cancel:
		if len(p.taken) == 0 {
			return ""
		}
		i := int(op.Pick * float64(len(p.taken)))
		k := p.taken[i]
		p.taken = slices.Delete(p.taken, i, i+1)
		_, def = p.by(k.way, k.def)
		if k.r != nil {
			p.must(k.r.Cancel(ctx))
			p.note("%v %d: cancel %d", k.way, def, k.n)
			p.giveBack(def, func(b *Bucket) bool { return b.end(k.id) })
			return ""
		}
		if op.Kind == Undo || op.Kind == Cancel {
			hadHold := p.held(k)
			p.must(k.res.Undo(ctx))
			p.note("%v %d: undo %d", k.way, def, k.n)
			p.giveBack(def, func(b *Bucket) bool {
				if hadHold {
					return b.end(k.id)
				}
				b.refund(k.n)
				return true
			})
			return ""
		}
		actual := (op.N - 1) % (k.n + 1)
		if op.Kind == SettleAbove {
			actual = k.n + op.N
		}
		p.must(k.res.Settle(ctx, p.actual(actual)))
		p.note("%v %d: settle %d of %d", k.way, def, actual, k.n)
		hadHold := p.held(k)
		p.giveBack(def, func(b *Bucket) bool {
			if hadHold {
				ended := b.end(k.id)
				b.left -= float64(actual)
				return ended || actual > 0
			}
			if actual <= k.n {
				b.refund(k.n - actual)
			} else {
				b.left -= float64(actual - k.n)
			}
			return actual != k.n
		})
	case Refund:
		p.must(l.RefundUnits(ctx, p.w.Key, p.units(n)))
		p.note("%v %d: refund %d", op.Way, def, n)
		p.giveBack(def, func(b *Bucket) bool { b.refund(n); return true })
	case Debit:
		p.must(l.DebitUnits(ctx, p.w.Key, p.units(n)))
		p.note("%v %d: debit %d", op.Way, def, n)
		m := p.decided(def, true)
		m.left -= float64(n)
		m.owes()
	case SetPolicy, SetOverride, SetException:
		var err error
		switch op.Kind {
		case SetException:
			p.exception = op.Def
			e := core.Exceptions{}
			if op.Def >= 0 {
				e.Overrides = map[string][]core.Limit{p.w.Key: p.run.Defs[op.Def : op.Def+1]}
			}
			err = p.main.SetExceptions(e)
		default:
			if op.Kind == SetPolicy {
				p.policy = op.Def
			} else {
				p.override = op.Def
			}
			policy := core.Policy{Name: "api", Limits: p.run.Defs[p.policy : p.policy+1], OnFailure: core.FailClosed}
			if p.override >= 0 {
				policy.Overrides = map[string][]core.Limit{p.w.Key: p.run.Defs[p.override : p.override+1]}
			}
			err = p.main.SetPolicy(policy)
		}
		p.must(err)
		p.note("%v: %d, main is %d", op.Kind, op.Def, p.current())
	}
	return wrong
}

func (p *player) actual(n int64) core.Units {
	if unit := p.run.Defs[0].Unit; unit != "" {
		return core.Units{unit: n}
	}
	return core.Units{core.Requests: n}
}

// held reports whether what k took was held when it was taken.
func (p *player) held(k *taken) bool { return k.res.Limits()[0].Limit.MaxHold > 0 }

func (p *player) lastReserved(m *Bucket) (at int64) {
	for _, h := range m.held {
		if !h.returns && !h.nothing {
			at = max(at, h.end)
		}
	}
	return at
}

// giveBack does f to the model under def, and keeps it if f reports a change. A
// bucket that was never used gets nothing.
func (p *player) giveBack(def int, f func(*Bucket) bool) {
	if p.model == nil || p.model.writer < 0 {
		return
	}
	next, ok := p.model.under(def, p.now())
	if !ok || next.lost {
		p.model = nil
		return
	}
	if f(next) {
		next.owes()
		next.written = p.now()
		p.model = next
	}
}

// compare returns what is wrong if a definition has so many tokens left.
func (b *Bucket) compare(def int, remaining int64) string {
	if b.lost {
		return ""
	}
	tolerance := 2*rounding + b.fuzzy
	low, high := int64(math.Floor(b.left-tolerance)), int64(math.Floor(b.left+tolerance))
	if remaining < max(0, low) || remaining > max(0, high) {
		return fmt.Sprintf("definition %d has %d left, want %d (exactly %.6f, %.6f used, %d of them held, %.6f cut)", def, remaining, max(0, high), b.left, b.Used(), b.out(), b.cut)
	}
	return ""
}

// check has PeekUnits show the bucket under each definition, which changes
// nothing.
func (p *player) check(op Op) (wrong string) {
	for d := range p.run.Defs {
		n := 1 + (op.N-1)%p.run.Defs[d].Capacity
		res, err := p.other[d].PeekUnits(context.Background(), p.w.Key, p.units(n))
		p.must(err)
		s := fmt.Sprintf("    %d: PeekUnits %d: %v, %d left, retry %v, reset %v", d, n, res.Allowed, res.Remaining, res.RetryAfter, res.ResetAfter)
		p.seen = append(p.seen, s)
		fmt.Fprintln(&p.log, s)
		p.Decisions++
		if d == p.current() && !res.Allowed {
			p.event = res.RetryAfter
		} else if d == p.current() && op.Pick < 0.3 {
			p.event = res.ResetAfter
		}
		if p.model != nil {
			m, ok := p.model.under(d, p.now())
			if !ok || m.lost {
				p.model = nil
			} else if wrong = m.compare(d, res.Remaining); wrong != "" {
				return wrong
			}
		}
		if p.w.Fork != nil {
			if !res.Allowed {
				if wrong = p.retry(d, n, res.RetryAfter, "PeekUnits"); wrong != "" {
					return wrong
				}
			}
			if wrong = p.full(d, res.ResetAfter, "PeekUnits"); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// later decides n on a copy after d.
func (p *player) later(def int, n int64, d time.Duration) core.Result {
	s, clock := p.w.Fork()
	clock.Move(d)
	p.Decisions++
	res, err := p.limiter(s, def).AllowUnits(context.Background(), p.w.Key, p.units(n))
	p.must(err)
	return res
}

const farthest = 20 * 365 * 24 * time.Hour

// retry returns what is wrong with a RetryAfter.
func (p *player) retry(def int, n int64, after time.Duration, who string) string {
	switch {
	case after == core.Never && n <= p.run.Defs[def].Capacity || after <= 0:
		return fmt.Sprintf("%s under %d: %d are denied, RetryAfter %v", who, def, n, after)
	case after > farthest:
		return ""
	case !p.later(def, n, after).Allowed:
		return fmt.Sprintf("%s under %d: %d are denied after RetryAfter, %v, when nobody else asked", who, def, n, after)
	case after > time.Microsecond && p.later(def, n, after-time.Microsecond).Allowed:
		return fmt.Sprintf("%s under %d: %d are allowed 1 µs before RetryAfter, %v", who, def, n, after)
	}
	return ""
}

// full returns what is wrong with a ResetAfter.
func (p *player) full(def int, after time.Duration, who string) string {
	if after > farthest {
		return ""
	}
	c := p.run.Defs[def].Capacity
	if res := p.later(def, 0, after); res.Remaining != c {
		return fmt.Sprintf("%s under %d: ResetAfter is %v, but %d of %d are left then", who, def, after, res.Remaining, c)
	}
	if after >= time.Microsecond {
		if res := p.later(def, 0, after-time.Microsecond); res.Remaining == c {
			return fmt.Sprintf("%s under %d: it is full 1 µs before ResetAfter, %v", who, def, after)
		}
	}
	return ""
}

// Shrink leaves out what a failure does not need.
func Shrink(run Run, fails func(Run) string) (Run, string) {
	wrong := fails(run)
	try := func(next Run) bool {
		if w := fails(next); w != "" {
			run, wrong = next, w
			return true
		}
		return false
	}
	for again := true; again; {
		again = false
		for size := len(run.Ops); size > 0; size /= 2 {
			for i := 0; i+size <= len(run.Ops); {
				if try(Run{run.Defs, slices.Delete(slices.Clone(run.Ops), i, i+size)}) {
					again = true
				} else {
					i++
				}
			}
		}
		for i := range run.Ops {
			for _, f := range []func(*Op){
				func(o *Op) { o.N = 1 }, func(o *Op) { o.N = (o.N + 1) / 2 }, func(o *Op) { o.Way = Other }, func(o *Op) { o.Def = 0 },
				func(o *Op) { o.Move = o.Move.Truncate(time.Second) }, func(o *Op) { o.Move /= 2 },
			} {
				next := Run{run.Defs, slices.Clone(run.Ops)}
				if f(&next.Ops[i]); next.Ops[i] != run.Ops[i] && try(next) {
					again = true
				}
			}
		}
		for i := range run.Defs {
			for _, f := range []func(*core.Limit){
				func(l *core.Limit) { l.Capacity = max(1, l.Capacity/2) }, func(l *core.Limit) { l.RefillRate = 1 }, func(l *core.Limit) { l.Capacity-- },
				func(l *core.Limit) { l.MaxHold = 0 }, func(l *core.Limit) { l.RefillInterval = time.Hour },
			} {
				next := Run{slices.Clone(run.Defs), run.Ops}
				d := &next.Defs[i]
				if f(d); d.Location != nil {
					d.RefillInterval = run.Defs[i].RefillInterval
				}
				if d.Capacity > 0 && d.RefillRate <= float64(d.Capacity) && (core.Policy{Name: "api", Limits: []core.Limit{*d}}).Validate() == nil && *d != run.Defs[i] && try(next) {
					again = true
				}
			}
		}
	}
	return run, wrong
}
