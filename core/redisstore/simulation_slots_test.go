package redisstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Simulations of slots and of estimates that come back test what other
// simulations don't: tokens that are out for a while. They have the same
// environments, and the same parts: _run draws, _player carries out and checks,
// _oracle knows what is out.

func TestSimulationKeepsEverySlotInMemory(t *testing.T) {
	t.Parallel()
	checkSlotSimulations(t, 40_000, func() environment { return &memoryEnvironment{} })
}

func TestSimulationKeepsEverySlotOnRedis(t *testing.T) {
	t.Parallel()
	checkSlotSimulations(t, 2_000, func() environment { return newRedisEnvironment(t) })
}

// checkSlotSimulations runs simulations until they have made enough decisions,
// or one breaks a promise.
func checkSlotSimulations(t *testing.T, decisions int, newEnvironment func() environment) {
	if *simulationDecisions > 0 {
		decisions = *simulationDecisions
	}
	if *simulationSeed != 0 {
		env := newEnvironment()
		if err := checkSlotSimulation(env, drawSlotSimulation(*simulationSeed), nil, new(atomic.Int64)); err != nil {
			reportSlots(t, env, drawSlotSimulation(*simulationSeed), err)
		}
		return
	}
	var (
		wg     sync.WaitGroup
		next   atomic.Uint64
		made   atomic.Int64
		failed atomic.Bool
		mu     sync.Mutex
		met    [slotKinds]int64
	)
	base, began := rand.Uint64(), time.Now()
	for range 2 {
		env := newEnvironment()
		wg.Go(func() {
			var own [slotKinds]int64
			for (made.Load() < int64(decisions) || time.Since(began) < *simulationFor) && !failed.Load() {
				sim := drawSlotSimulation(base + next.Add(1))
				if err := checkSlotSimulation(env, sim, &own, &made); err != nil && !failed.Swap(true) {
					reportSlots(t, env, sim, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for k, n := range own {
				met[k] += n
			}
		})
	}
	wg.Wait()
	t.Logf("%d decisions in %d simulations, %.1f s", made.Load(), next.Load(), time.Since(began).Seconds())
	for k, n := range met {
		if t.Logf("%16s %d", slotKindNames[k], n); n == 0 && made.Load() >= 1000 && !failed.Load() {
			t.Errorf("premise: no simulation has a %s", slotKindNames[k])
		}
	}
}

// checkSlotSimulation runs a simulation and returns the promise it broke, or
// nil. If the machine paused meanwhile, it runs it again.
func checkSlotSimulation(env environment, sim *slotSimulation, met *[slotKinds]int64, made *atomic.Int64) error {
	for again := 0; ; again++ {
		began := time.Now()
		pl := &slotPlayer{slotSimulation: sim, env: env, met: met}
		err := pl.play()
		made.Add(int64(pl.decisions))
		if err == nil || time.Since(began) < steady || again == 20 {
			return err
		}
	}
}

// reportSlots leaves out operations while the simulation still breaks the same
// promise, and reports it.
func reportSlots(t *testing.T, env environment, sim *slotSimulation, err error) {
	t.Helper()
	rule := ruleOf(err)
	deadline := time.Now().Add(20 * time.Second)
	for size := len(sim.ops); size > 0; size /= 2 {
		for i := 0; i < len(sim.ops) && time.Now().Before(deadline); {
			next := *sim
			next.ops = slices.Delete(slices.Clone(sim.ops), i, min(i+size, len(sim.ops)))
			if e := checkSlotSimulation(env, &next, nil, new(atomic.Int64)); e != nil && ruleOf(e) == rule {
				sim, err = &next, e
			} else {
				i += size
			}
		}
	}
	pl := &slotPlayer{slotSimulation: sim, env: env, log: &strings.Builder{}}
	_ = pl.play()
	t.Errorf("%v\n-run %s -simulation.seed=%d, shrunk to:\n%s%s", err, t.Name(), sim.seed, sim, pl.log)
}

// ruleOf returns the promise that err says was broken.
func ruleOf(err error) string {
	if b := (*breach)(nil); errors.As(err, &b) {
		return b.rule
	}
	return fmt.Sprintf("%T", err)
}
