package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// reference is the smallest store. It keeps every key for ever.
type reference struct {
	now func() time.Time

	mu     sync.Mutex
	states map[[2]string][]byte
}

func (s *reference) Do(_ context.Context, r store.Request) (store.Answer, error) {
	address := [2]string{r.Policy(), strings.Clone(r.Key())}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, next, _, err := r.Decide(s.states[address], s.now())
	if next != nil {
		s.states[address] = next
	}
	return a, err
}

func (s *reference) Reset(_ context.Context, policy, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.states, [2]string{policy, key})
	return nil
}

// histories are the policies whose limits a history mixes, in several versions.
// Each has a limit that is not full before the history's end, so that a store
// that forgets keys once they are full answers as the reference, which never
// does: also after the clock was set back, or by another version.
func histories() map[string][][]core.Limit {
	whole := core.Limit{Name: "whole", Unit: "whole", Capacity: 500, RefillRate: 1, RefillInterval: 1000 * time.Hour}
	requests := core.PerMinute(20).WithName("requests")
	calls, stepped := core.PerHour(1000).WithName("tokens").WithUnit(tokens), requests.WithMode(core.Stepped)
	aligned := core.Limit{Name: "requests", Capacity: 15, RefillRate: 7, RefillInterval: 9 * time.Second, Mode: core.Aligned}
	return map[string][][]core.Limit{
		"plain":    {{requests, calls, whole}, {stepped, calls, whole}, {requests.WithBurst(35), whole, calls.WithBurst(300)}},
		"simple":   {{aligned, whole}, {aligned, whole}},
		"holds":    {{requests, calls.WithMaxHold(20 * time.Second), atOnce(6), whole}, {atOnce(3), calls.WithMaxHold(time.Minute), whole}},
		"calendar": {{core.PerMonth(20).WithName("requests"), calls, whole}, {core.PerDay(30).WithName("requests"), calls, whole}},
	}
}

// player plays one history on both stores.
type player struct {
	*subject
	random       *rand.Rand
	sides        [2][]*core.Limiter // by version: of the store, and of the reference
	results      [2][]*core.Result
	reservations [2][]*core.Reservation
	key          string
	said         [2]any // what each side has answered
}

// historyAlike plays random histories on the store and on the reference.
func historyAlike(s *subject) {
	right := &reference{now: s.clock.Now, states: map[[2]string][]byte{}}
	seed := uint64(0)
	for policy, versions := range histories() {
		for range 4 {
			seed++
			p := &player{subject: s, random: rand.New(rand.NewPCG(seed, 0)), key: policy + strconv.FormatUint(seed, 10)}
			for _, limits := range versions {
				p.sides[0] = append(p.sides[0], s.limiterOf(policy, limits...))
				p.sides[1] = append(p.sides[1], s.limiterOn(right, policy, limits))
			}
			p.both(func(i int) any { return p.keep(i, p.sides[i][0], core.Units{core.Requests: 0, "whole": 100}) })
			for n := range 150 {
				if did := p.step(policy != "holds"); !reflect.DeepEqual(p.said[0], p.said[1]) {
					s.Fatalf("the store breaks the rule %q: key %s, step %d, %s:\nthe store says  %+v\nDecide says     %+v",
						s.rule, p.key, n, did, p.said[0], p.said[1])
				}
			}
			s.clock.move(time.Hour)
		}
	}
}

// both does the same on both sides.
func (p *player) both(do func(side int) any) {
	for i := range p.said {
		p.said[i] = do(i)
	}
}

// view is what a caller sees of a decision. A denial that this process repeats
// has the numbers of its first time, but for when to retry.
func view(r *core.Result, err error) any {
	if r.Source == core.FromDenyCache || !r.Allowed {
		return fmt.Sprint(r.Allowed, r.RetryAfter, r.ResetAfter, r.Cost, err)
	}
	return fmt.Sprintf("%v %v %v %+v", r.Allowed, r.Cost, err, r.Limits())
}

// keep asks for units, and keeps the result.
func (p *player) keep(side int, l *core.Limiter, units core.Units) any {
	res, err := l.AllowUnits(p.Context(), p.key, units)
	p.results[side] = append(p.results[side], &res)
	return view(&res, err)
}

// step draws a step and does it on both sides.
func (p *player) step(reserves bool) (did string) {
	ctx, r := p.Context(), p.random
	version, n, m, last := r.IntN(len(p.sides[0])), r.Int64N(8), r.Int64N(400), 1+r.IntN(6)
	if r.IntN(5) == 0 {
		n, m = n*5, m*5
	}
	limiter := func(side int) *core.Limiter { return p.sides[side][version] }
	result := func(side int) *core.Result { return p.results[side][max(0, len(p.results[side])-last)] }
	units := core.Units{core.Requests: n, tokens: m}
	steps := []struct {
		name string
		do   func(side int) any
	}{
		{"AllowN", func(side int) any {
			res, err := limiter(side).AllowN(ctx, p.key, n)
			p.results[side] = append(p.results[side], &res)
			return view(&res, err)
		}},
		{"AllowUnits", func(side int) any { return p.keep(side, limiter(side), units) }},
		{"AllowAtMost", func(side int) any {
			res, err := limiter(side).AllowAtMost(ctx, p.key, n)
			p.results[side] = append(p.results[side], &res)
			return view(&res, err)
		}},
		{"PeekUnits", func(side int) any { res, err := limiter(side).PeekUnits(ctx, p.key, units); return view(&res, err) }},
		{"Refund", func(side int) any { return limiter(side).RefundUnits(ctx, p.key, units) }},
		{"Debit", func(side int) any { return limiter(side).DebitUnits(ctx, p.key, units) }},
		{"Undo", func(side int) any { return result(side).Undo(ctx) }},
		{"Settle", func(side int) any { return result(side).Settle(ctx, core.Units{tokens: m}) }},
		{"Release", func(side int) any { return result(side).Release(ctx) }},
		{"Hold", func(side int) any { return result(side).Hold(ctx) }},
		{"Reserve", func(side int) any {
			res, err := limiter(side).Reserve(ctx, p.key, n)
			p.reservations[side] = append(p.reservations[side], res)
			return fmt.Sprint(res.OK(), res.Delay(), err)
		}},
		{"Cancel", func(side int) any {
			if all := p.reservations[side]; len(all) >= last {
				return all[len(all)-last].Cancel(ctx)
			}
			return nil
		}},
	}
	if !reserves {
		steps = steps[:len(steps)-2]
	}
	switch i := r.IntN(2 * len(steps)); {
	case i < len(steps):
		p.both(steps[i].do)
		return fmt.Sprintf("%s of %v, version %d", steps[i].name, units, version)
	case i == len(steps):
		p.clock.move(-time.Duration(r.Int64N(int64(time.Minute))))
	case i%2 == 0:
		p.clock.move(time.Duration(r.Int64N(int64(20 * time.Second))))
	default:
		p.clock.move(time.Duration(r.IntN(3)) * 500 * time.Millisecond)
	}
	p.both(func(side int) any { res, err := limiter(side).Peek(ctx, p.key); return view(&res, err) })
	return "Peek at " + p.clock.Now().String()
}
