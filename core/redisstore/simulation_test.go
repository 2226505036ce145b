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

// Simulations test the promises of a store: several processes make random calls
// on one key, in any order, and each answer is checked. The parts, from what is
// drawn to what is reported:
//
//	simulation    _run, _limits, _calendar   a seed's limits, processes and operations, drawn in advance as plain data
//	environment   _environment, _process     the stores, and the processes whose limiters use them
//	operations    _player, _decide, …        the player carries the operations out, one after another
//	checker       _checker                   compares each answer with what the oracle allows
//	oracle        _oracle, _bound, _level    knows what was taken, and so how much may and must be there
//	report        _shrink, _matrix           the smallest simulation that breaks the promise; what was covered
//	slots         _slots, _slots_…           a simulation of its own, of tokens that are out for a while
//
// For an operation the player moves the clock, calls the library, gives the
// answer to the checker, and records in the oracle what was taken or came back.
// The oracle shares no code with the library. It has two bounds: more tokens in
// a window than the limits promise are a breach, and so is a denial although
// the tokens must be there.
//
// Example: 10 tokens a minute, full at 0 s. 10 are taken at 0 s. At 30 s 5 must
// be there: a denial of 5 loses tokens, and admitting 6 makes 16 in 30 s, which
// is more than MaxIn.

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

// checkSimulations runs simulations until they have made enough decisions. It
// fails the test if one breaks a promise.
func checkSimulations(t *testing.T, decisions int, newEnvironment func() environment) {
	if *simulationDecisions > 0 {
		decisions = *simulationDecisions
	}
	if *simulationSeed != 0 {
		env := newEnvironment()
		if err := checkSimulation(env, drawSimulation(*simulationSeed, env.leases()), nil, new(atomic.Int64)); err != nil {
			report(t, env, drawSimulation(*simulationSeed, env.leases()), err)
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
		env := newEnvironment()
		wg.Go(func() {
			own := &matrix{}
			for (made.Load() < int64(decisions) || time.Since(began) < *simulationFor) && !failed.Load() {
				seed := base + next.Add(1)
				sim := drawSimulation(seed, env.leases())
				var b *breach
				if !errors.As(checkSimulation(env, sim, own, &made), &b) {
					continue
				}
				mu.Lock()
				bad[b.rule]++
				first := bad[b.rule] <= *simulationAll || *simulationAll == 0 && len(bad) == 1 && bad[b.rule] == 1
				mu.Unlock()
				failed.Store(*simulationAll == 0)
				if first {
					report(t, env, sim, b)
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

// enough is how many decisions it takes until any two kinds of operations
// follow each other.
const enough = 100_000

// steady is how long a simulation may take. On Redis keys expire by the real
// clock too, so a machine that pauses for about a second may lose one.
const steady = 700 * time.Millisecond

// checkSimulation runs a simulation and returns the promise it broke, or nil.
// If the machine paused meanwhile, it runs the simulation again.
func checkSimulation(env environment, sim *simulation, met *matrix, made *atomic.Int64) error {
	for again := 0; ; again++ {
		began := time.Now()
		if met != nil {
			met.begin()
		}
		pl := &player{simulation: sim, environment: env, met: met}
		err := pl.play()
		made.Add(int64(pl.decisions))
		if err == nil || time.Since(began) < steady || again == 20 {
			return err
		}
	}
}
