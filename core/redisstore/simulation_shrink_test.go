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

// The report: a simulation that breaks a promise is made as small as possible, and played once more with a log.

// report shrinks a simulation that broke a promise and reports it.
func report(t *testing.T, env environment, sim *simulation, err error) {
	t.Helper()
	seed := sim.seed
	sim, err = shrink(env, sim, err, 20*time.Second)
	pl := &player{simulation: sim, environment: env, log: &strings.Builder{}}
	_ = pl.play()
	t.Errorf("%v\n-run %s -simulation.seed=%d, shrunk to:\n%s%s", err, t.Name(), seed, sim, pl.log)
}

// shrink leaves out operations and makes numbers smaller while the simulation still breaks the same promise.
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

// simpler returns changes that make a simulation easier to read. A change returns nil if it does not apply.
func (sim *simulation) simpler() (tries []func(*simulation) *simulation) {
	add := func(f func(*simulation) *simulation) { tries = append(tries, f) }
	change := func(f func(o *op)) {
		for i := range sim.ops {
			add(func(sim *simulation) *simulation {
				if i >= len(sim.ops) {
					return nil
				}
				before := sim.ops[i]
				if f(&sim.ops[i]); sim.ops[i] == before {
					return nil
				}
				return sim
			})
		}
	}
	change(func(o *op) { o.move = moveNone })
	change(func(o *op) { o.who = 0 })
	change(func(o *op) { o.tier = 0 })
	change(func(o *op) { o.times = 1 })
	change(func(o *op) { o.times = (o.times + 1) / 2 })
	change(func(o *op) { o.n = (o.n + 1) / 2 })
	change(func(o *op) { o.part = float64(int(o.part*512)) / 1024 })
	change(func(o *op) { o.cost = costCapacity })
	change(func(o *op) { o.pick = 0 })
	lists := func(f func(list []core.Limit, i int) []core.Limit) {
		for at := range sim.lists {
			for i := range sim.lists[at] {
				add(func(sim *simulation) *simulation {
					if at >= len(sim.lists) || i >= len(sim.lists[at]) {
						return nil
					}
					before := slices.Clone(sim.lists[at])
					sim.lists[at] = f(sim.lists[at], i)
					if len(sim.lists[at]) == 0 || !validList(sim.lists[at]) || slices.Equal(sim.lists[at], before) {
						return nil
					}
					return sim
				})
			}
		}
	}
	lists(func(list []core.Limit, i int) []core.Limit { return slices.Delete(list, i, i+1) })
	lists(func(list []core.Limit, i int) []core.Limit {
		list[i].Capacity = (list[i].Capacity + 1) / 2
		return list
	})
	lists(func(list []core.Limit, i int) []core.Limit { list[i].RefillRate = 1; return list })
	lists(func(list []core.Limit, i int) []core.Limit { list[i].RefillInterval = time.Second; return list })
	add(func(sim *simulation) *simulation {
		if len(sim.lists) < 2 {
			return nil
		}
		sim.lists = sim.lists[:len(sim.lists)-1]
		return sim
	})
	for i := range sim.procs {
		add(func(sim *simulation) *simulation {
			if i >= len(sim.procs) || len(sim.procs) < 2 {
				return nil
			}
			sim.procs = slices.Delete(sim.procs, i, i+1)
			return sim
		})
		add(func(sim *simulation) *simulation {
			if i >= len(sim.procs) || sim.procs[i] == (proc{list: sim.procs[i].list}) {
				return nil
			}
			sim.procs[i] = proc{list: sim.procs[i].list}
			return sim
		})
		add(func(sim *simulation) *simulation {
			if i >= len(sim.procs) || sim.procs[i].list == 0 {
				return nil
			}
			sim.procs[i].list = 0
			return sim
		})
	}
	add(func(sim *simulation) *simulation {
		if !sim.last {
			return nil
		}
		sim.last = false
		return sim
	})
	return tries
}
