package storetest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
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

// versions are the limits that a history mixes, of each policy. A limit is not
// full before the history's end, the first one or the whole. So a store that
// forgets full buckets answers as the reference, which never does, also by
// another version and after the clock was set back.
func versions() map[string][][]core.Limit {
	sole := core.Limit{Name: "sole", Capacity: 500, RefillRate: 1, RefillInterval: 1000 * time.Hour}
	whole := sole.WithName("whole").WithUnit("whole")
	minute, hour := core.PerMinute(20).WithName("requests"), core.PerHour(1000).WithName("tokens").WithUnit(tokens)
	aligned := core.Per(7, 9*time.Second).WithName("requests").WithBurst(15).WithMode(core.Aligned)
	stepped := minute.WithMode(core.Stepped)
	month, day := core.PerMonth(20).WithName("requests"), core.PerDay(30).WithName("requests")
	held := hour.WithMaxHold(20 * time.Second)
	return map[string][][]core.Limit{
		"sole":      {{sole}, {sole.WithBurst(100)}},
		"plain":     {{minute, hour, whole}, {stepped, hour, whole}, {aligned, whole, hour.WithBurst(300)}},
		"holds":     {{minute, held, atOnce(6), whole}, {atOnce(3), held.WithMaxHold(time.Minute), whole}},
		"calendars": {{month, hour, whole}, {day, hour, whole}},
	}
}

// history is one key of a policy, on the store and on the reference.
type history struct {
	*subject
	random *rand.Rand
	policy string
	key    string
	sides  [2]side
}

// side is what a history has of one of the two stores.
type side struct {
	limiters     []*core.Limiter // by version
	results      []*core.Result
	reservations []*core.Result
	answer       string // the last one
}

func historyAlike(s *subject) {
	right := &reference{now: s.clock.Now, states: map[[2]string][]byte{}}
	all := versions()
	for _, policy := range slices.Sorted(maps.Keys(all)) {
		for seed := range uint64(4) {
			h := &history{subject: s, random: rand.New(rand.NewPCG(seed, 0)), policy: policy, key: strconv.FormatUint(seed, 10)}
			for _, limits := range all[policy] {
				h.sides[0].limiters = append(h.sides[0].limiters, s.limiterOf(policy, limits...))
				h.sides[1].limiters = append(h.sides[1].limiters, s.limiterOn(right, policy, limits))
			}
			used := core.Units{core.Requests: 0, "whole": 100}
			if policy == "sole" {
				used = core.Units{core.Requests: 100}
			}
			h.both(func(on *side) string { return on.ask(on.limiters[0].AllowUnits(s.Context(), h.key, used)) })
			for n := range 150 {
				did := h.step()
				if a, b := h.sides[0].answer, h.sides[1].answer; a != b {
					s.broken("policy %s, key %s, step %d, %s:\nthe store answers %s\nDecide answers    %s",
						policy, h.key, n, did, a, b)
					return
				}
			}
			s.clock.move(time.Hour)
		}
	}
}

// both does the same on both sides.
func (h *history) both(do func(*side) string) {
	for i := range h.sides {
		h.sides[i].answer = do(&h.sides[i])
	}
}

// ask keeps a result. It returns what a caller sees of it: of a denial, which the
// store may repeat, not what is left.
func (on *side) ask(res core.Result, err error) string {
	if on.results = append(on.results, &res); !res.Allowed {
		return fmt.Sprint("denied ", res.RetryAfter, res.ResetAfter, err)
	}
	return fmt.Sprintf("%v %v %+v", res.Cost, err, res.Limits())
}

// step does a random step on both sides.
func (h *history) step() (did string) {
	ctx, r := h.Context(), h.random
	version, n, units := r.IntN(len(h.sides[0].limiters)), r.Int64N(8), core.Units{tokens: r.Int64N(400)}
	if r.IntN(5) == 0 {
		n, units[tokens] = n*5, units[tokens]*5
	}
	if h.policy == "sole" {
		units = core.Units{}
	}
	units[core.Requests] = n
	last := 1 + r.IntN(6)
	result := func(on *side) *core.Result { return on.results[max(0, len(on.results)-last)] }
	type step struct {
		name string
		do   func(on *side, l *core.Limiter) string
	}
	steps := []step{
		{"AllowN", func(on *side, l *core.Limiter) string { return on.ask(l.AllowN(ctx, h.key, n)) }},
		{"AllowUnits", func(on *side, l *core.Limiter) string { return on.ask(l.AllowUnits(ctx, h.key, units)) }},
		{"AllowAtMost", func(on *side, l *core.Limiter) string { return on.ask(l.AllowAtMost(ctx, h.key, n)) }},
		{"Peek", func(on *side, l *core.Limiter) string { return on.ask(l.Peek(ctx, h.key)) }},
		{"Refund", func(_ *side, l *core.Limiter) string { return fmt.Sprint(l.Refund(ctx, h.key, n)) }},
		{"Debit", func(_ *side, l *core.Limiter) string { return fmt.Sprint(l.Debit(ctx, h.key, n)) }},
		{"Undo", func(on *side, _ *core.Limiter) string { return fmt.Sprint(result(on).Undo(ctx)) }},
		{"Settle", func(on *side, _ *core.Limiter) string { return fmt.Sprint(result(on).Settle(ctx, units)) }},
	}
	if h.policy == "holds" {
		steps = append(steps,
			step{"Release", func(on *side, _ *core.Limiter) string { return fmt.Sprint(result(on).Release(ctx)) }},
			step{"Hold", func(on *side, _ *core.Limiter) string { return fmt.Sprint(result(on).Hold(ctx)) }})
	} else {
		steps = append(steps, step{"Reserve", func(on *side, l *core.Limiter) string {
			res, err := l.Reserve(ctx, h.key, n)
			on.reservations = append(on.reservations, &res)
			return fmt.Sprint(res.Allowed, res.Delay(), res.RetryAfter, err)
		}}, step{"Undo", func(on *side, _ *core.Limiter) string {
			if len(on.reservations) < last {
				return ""
			}
			return fmt.Sprint(on.reservations[len(on.reservations)-last].Undo(ctx))
		}})
	}
	i := r.IntN(2 * len(steps))
	if i >= len(steps) { // move the clock, and look
		unit := 100 * time.Millisecond
		if r.IntN(10) == 0 {
			unit = time.Hour
		}
		h.clock.move(time.Duration(r.IntN(20*i)-i) * unit)
		i, n = 0, 0
	}
	h.both(func(on *side) string { return steps[i].do(on, on.limiters[version]) })
	return fmt.Sprintf("%s of %v at %v, version %d", steps[i].name, units, h.clock.Now(), version)
}
