package redisstore_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Simulations: several processes make random calls on one key, in any order. An oracle that shares no code with the
// library checks what is admitted. See simulation, player and oracle.

var (
	simulationDecisions = flag.Int("simulation.decisions", 0, "how many decisions each simulation makes (default 20,000 in memory and 2,000 on Redis)")
	simulationFor       = flag.Duration("simulation.for", 0, "how long each simulation plays at least")
	simulationAll       = flag.Int("simulation.all", 0, "continue after a simulation that breaks a promise, and report so many simulations for each promise")
	simulationSeed      = flag.Uint64("simulation.seed", 0, "run the simulation of this seed only")
)

func TestSimulationKeepsEveryPromiseInMemory(t *testing.T) {
	t.Parallel()
	checkSimulations(t, 20_000, func() environment { return &memoryEnvironment{} })
}

func TestSimulationKeepsEveryPromiseOnRedis(t *testing.T) {
	t.Parallel()
	checkSimulations(t, 2_000, func() environment { return newRedisEnvironment(t) })
}

// checkSimulations runs simulations until they have made enough decisions. It fails the test if one breaks a promise.
func checkSimulations(t *testing.T, decisions int, newEnvironment func() environment) {
	if *simulationDecisions > 0 {
		decisions = *simulationDecisions
	}
	if *simulationSeed != 0 {
		w := newEnvironment()
		if err := checkSimulation(w, drawSimulation(*simulationSeed, w.leases()), nil, new(atomic.Int64)); err != nil {
			report(t, w, drawSimulation(*simulationSeed, w.leases()), err)
		}
		return
	}
	base := rand.Uint64()
	var (
		wg     sync.WaitGroup
		next   atomic.Uint64
		made   atomic.Int64
		failed atomic.Bool
		mu     sync.Mutex
		met    matrix
		bad    = make(map[string]int) // simulations by the promise they broke
	)
	began := time.Now()
	for range 2 {
		w := newEnvironment()
		wg.Go(func() {
			own := &matrix{}
			for (made.Load() < int64(decisions) || time.Since(began) < *simulationFor) && !failed.Load() {
				seed := base + next.Add(1)
				l := drawSimulation(seed, w.leases())
				var b *breach
				if !errors.As(checkSimulation(w, l, own, &made), &b) {
					continue
				}
				mu.Lock()
				bad[b.rule]++
				first := bad[b.rule] <= *simulationAll || *simulationAll == 0 && len(bad) == 1 && bad[b.rule] == 1
				mu.Unlock()
				failed.Store(*simulationAll == 0)
				if first {
					report(t, w, l, b)
				}
			}
			mu.Lock()
			met.merge(own)
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(bad) > 0 {
		t.Logf("simulations that broke a promise: %v", bad)
	}
	t.Logf("%d decisions in %d simulations, %.1f s\n%s", made.Load(), next.Load(), time.Since(began).Seconds(), &met)
	if pairs := met.missing(newEnvironment().leases()); len(pairs) > 0 && made.Load() >= enough && !t.Failed() {
		t.Errorf("these operations never followed each other on one key: %s", strings.Join(pairs, ", "))
	}
}

// enough is how many decisions it takes until any two kinds of operations follow each other.
const enough = 100_000

// steady is how long a simulation may take. On Redis keys expire by the real clock too, so a machine that pauses for about a
// second may lose one.
const steady = 700 * time.Millisecond

// checkSimulation runs a simulation and returns the promise it broke, or nil. If the machine paused meanwhile, it runs the simulation again.
func checkSimulation(w environment, l *simulation, met *matrix, made *atomic.Int64) error {
	for again := 0; ; again++ {
		began := time.Now()
		if met != nil {
			met.begin()
		}
		pl := &player{simulation: l, environment: w, met: met}
		err := pl.play()
		made.Add(int64(pl.decisions))
		if err == nil || time.Since(began) < steady || again == 20 {
			return err
		}
	}
}
