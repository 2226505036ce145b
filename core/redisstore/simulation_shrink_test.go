package redisstore_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// The report: a simulation that breaks a promise is made as small as possible,
// and played once more with a log.

// report shrinks a simulation that broke a promise and reports it.
func report(t *testing.T, env environment, sim *simulation, err error) {
	t.Helper()
	seed := sim.seed
	sim, err = shrink(env, sim, err, 20*time.Second)
	pl := &player{simulation: sim, environment: env, log: &strings.Builder{}}
	_ = pl.play()
	t.Errorf("%v\n-run %s -simulation.seed=%d, shrunk to:\n%s%s", err, t.Name(), seed, sim, pl.log)
}

// shrink leaves out operations and makes numbers smaller while the simulation
// still breaks the same promise.
func shrink(env environment, sim *simulation, err error, atMost time.Duration) (*simulation, error) {
	var first *breach
	errors.As(err, &first)
	deadline := time.Now().Add(atMost)
	try := func(next *simulation) bool {
		if time.Now().After(deadline) {
			return false
		}
		var b *breach
		if e := checkSimulation(env, next, nil, new(atomic.Int64)); errors.As(e, &b) && b.rule == first.rule {
			sim, err = next, e
			return true
		}
		return false
	}
	for again := true; again; {
		again = false
		for size := len(sim.ops); size > 0; size /= 2 {
			for i := 0; i < len(sim.ops); {
				next := sim.clone()
				next.ops = slices.Delete(next.ops, i, min(i+size, len(next.ops)))
				if try(next) {
					again = true
				} else {
					i += size
				}
			}
		}
		for _, next := range sim.simpler() {
			if candidate := next(sim.clone()); candidate != nil && try(candidate) {
				again = true
			}
		}
	}
	return sim, err
}

func (sim *simulation) clone() *simulation {
	next := *sim
	next.ops, next.procs, next.lists = slices.Clone(sim.ops), slices.Clone(sim.procs), slices.Clone(sim.lists)
	for i := range next.lists {
		next.lists[i] = slices.Clone(next.lists[i])
	}
	return &next
}

// changing is a change of a simulation. It returns nil if it does not apply.
type changing func(*simulation) *simulation

// simpler returns changes that make a simulation easier to read.
func (sim *simulation) simpler() (tries []changing) {
	for _, f := range []func(o *op){
		func(o *op) { o.move = moveNone },
		func(o *op) { o.who = 0 },
		func(o *op) { o.tier = 0 },
		func(o *op) { o.times = 1 },
		func(o *op) { o.times = (o.times + 1) / 2 },
		func(o *op) { o.n = (o.n + 1) / 2 },
		func(o *op) { o.part = float64(int(o.part*512)) / 1024 },
		func(o *op) { o.cost = costCapacity },
		func(o *op) { o.pick = 0 },
	} {
		for i := range sim.ops {
			tries = append(tries, func(sim *simulation) *simulation {
				if i >= len(sim.ops) {
					return nil
				}
				before := sim.ops[i]
				f(&sim.ops[i])
				return sim.unless(sim.ops[i] == before)
			})
		}
	}
	for _, f := range []func(list []core.Limit, i int) []core.Limit{
		func(list []core.Limit, i int) []core.Limit { return slices.Delete(list, i, i+1) },
		func(list []core.Limit, i int) []core.Limit {
			list[i].Capacity = (list[i].Capacity + 1) / 2
			return list
		},
		func(list []core.Limit, i int) []core.Limit { list[i].RefillRate = 1; return list },
		func(list []core.Limit, i int) []core.Limit { list[i].RefillInterval = time.Second; return list },
	} {
		for at := range sim.lists {
			for i := range sim.lists[at] {
				tries = append(tries, func(sim *simulation) *simulation {
					if at >= len(sim.lists) || i >= len(sim.lists[at]) {
						return nil
					}
					before := slices.Clone(sim.lists[at])
					sim.lists[at] = f(sim.lists[at], i)
					return sim.unless(len(sim.lists[at]) == 0 || !validList(sim.lists[at]) || slices.Equal(sim.lists[at], before))
				})
			}
		}
	}
	return append(tries, sim.fewer()...)
}

// unless returns nil if a change does not apply.
func (sim *simulation) unless(same bool) *simulation {
	if same {
		return nil
	}
	return sim
}

// fewer returns changes that leave out lists and processes, and what sets
// processes apart.
func (sim *simulation) fewer() (tries []changing) {
	tries = append(tries, func(sim *simulation) *simulation {
		if len(sim.lists) < 2 {
			return nil
		}
		sim.lists = sim.lists[:len(sim.lists)-1]
		return sim
	})
	for i := range sim.procs {
		tries = append(tries, func(sim *simulation) *simulation {
			if i >= len(sim.procs) || len(sim.procs) < 2 {
				return nil
			}
			sim.procs = slices.Delete(sim.procs, i, i+1)
			return sim
		}, func(sim *simulation) *simulation {
			if i >= len(sim.procs) || sim.procs[i] == (proc{list: sim.procs[i].list}) {
				return nil
			}
			sim.procs[i] = proc{list: sim.procs[i].list}
			return sim
		}, func(sim *simulation) *simulation {
			if i >= len(sim.procs) || sim.procs[i].list == 0 {
				return nil
			}
			sim.procs[i].list = 0
			return sim
		})
	}
	return append(tries, func(sim *simulation) *simulation {
		if !sim.last {
			return nil
		}
		sim.last = false
		return sim
	})
}
