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

// report shrinks a simulation that broke a promise and reports it.
func report(t *testing.T, w environment, l *simulation, err error) {
	t.Helper()
	seed := l.seed
	l, err = shrink(w, l, err, 20*time.Second)
	pl := &player{simulation: l, environment: w, log: &strings.Builder{}}
	_ = pl.play()
	t.Errorf("%v\n-run %s -simulation.seed=%d, shrunk to:\n%s%s", err, t.Name(), seed, l, pl.log)
}

// shrink leaves out operations and makes numbers smaller while the simulation still breaks the same promise.
func shrink(w environment, l *simulation, err error, atMost time.Duration) (*simulation, error) {
	var first *breach
	errors.As(err, &first)
	deadline := time.Now().Add(atMost)
	try := func(next *simulation) bool {
		if time.Now().After(deadline) {
			return false
		}
		var b *breach
		if e := checkSimulation(w, next, nil, new(atomic.Int64)); errors.As(e, &b) && b.rule == first.rule {
			l, err = next, e
			return true
		}
		return false
	}
	for again := true; again; {
		again = false
		for size := len(l.ops); size > 0; size /= 2 {
			for i := 0; i < len(l.ops); {
				next := l.clone()
				next.ops = slices.Delete(next.ops, i, min(i+size, len(next.ops)))
				if try(next) {
					again = true
				} else {
					i += size
				}
			}
		}
		for _, next := range l.simpler() {
			if candidate := next(l.clone()); candidate != nil && try(candidate) {
				again = true
			}
		}
	}
	return l, err
}

func (l *simulation) clone() *simulation {
	next := *l
	next.ops, next.procs, next.lists = slices.Clone(l.ops), slices.Clone(l.procs), slices.Clone(l.lists)
	for i := range next.lists {
		next.lists[i] = slices.Clone(next.lists[i])
	}
	return &next
}

// changing is a change of a simulation. It returns nil if it does not apply.
type changing func(*simulation) *simulation

// simpler returns changes that make a simulation easier to read.
func (l *simulation) simpler() (tries []changing) {
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
		for i := range l.ops {
			tries = append(tries, func(l *simulation) *simulation {
				if i >= len(l.ops) {
					return nil
				}
				before := l.ops[i]
				f(&l.ops[i])
				return l.unless(l.ops[i] == before)
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
		for at := range l.lists {
			for i := range l.lists[at] {
				tries = append(tries, func(l *simulation) *simulation {
					if at >= len(l.lists) || i >= len(l.lists[at]) {
						return nil
					}
					before := slices.Clone(l.lists[at])
					l.lists[at] = f(l.lists[at], i)
					return l.unless(len(l.lists[at]) == 0 || !validList(l.lists[at]) || slices.Equal(l.lists[at], before))
				})
			}
		}
	}
	return append(tries, l.fewer()...)
}

// unless returns nil if a change does not apply.
func (l *simulation) unless(same bool) *simulation {
	if same {
		return nil
	}
	return l
}

// fewer returns changes that leave out lists and processes, and what sets processes apart.
func (l *simulation) fewer() (tries []changing) {
	tries = append(tries, func(l *simulation) *simulation {
		if len(l.lists) < 2 {
			return nil
		}
		l.lists = l.lists[:len(l.lists)-1]
		return l
	})
	for i := range l.procs {
		tries = append(tries, func(l *simulation) *simulation {
			if i >= len(l.procs) || len(l.procs) < 2 {
				return nil
			}
			l.procs = slices.Delete(l.procs, i, i+1)
			return l
		}, func(l *simulation) *simulation {
			if i >= len(l.procs) || l.procs[i] == (proc{list: l.procs[i].list}) {
				return nil
			}
			l.procs[i] = proc{list: l.procs[i].list}
			return l
		}, func(l *simulation) *simulation {
			if i >= len(l.procs) || l.procs[i].list == 0 {
				return nil
			}
			l.procs[i].list = 0
			return l
		})
	}
	return append(tries, func(l *simulation) *simulation {
		if !l.last {
			return nil
		}
		l.last = false
		return l
	})
}
