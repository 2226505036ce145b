package core_test

import (
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/definitions"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

var (
	definitionsRuns = flag.Int("definitions", soak.Budget(150, 2500), "how many buckets are simulated under several definitions")
	definitionsSeed = flag.Uint64("definitions-seed", 0, "the first seed; 0: a random one")
)

// A bucket remembers what was used, held and given back, whatever its Capacity
// is; a rate counts from its change; and what a decision or a PeekUnits
// promises happens, to the microsecond.
func TestWhatIsUsedStaysUsedUnderSeveralDefinitions(t *testing.T) {
	t.Parallel()
	seed := *definitionsSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	decisions := 0
	for i := range uint64(*definitionsRuns) {
		run := definitions.Draw(rand.New(rand.NewPCG(seed+i, 0)))
		seen, n, wrong := definitions.Play(t, run, forkable())
		decisions += n
		if wrong == "" {
			clock := limittest.NewClock()
			inMemory, _, _ := definitions.Play(t, run, definitions.World{Store: core.NewMemoryStore(core.WithClock(clock.Now)), Clock: clock})
			if !slices.Equal(seen, inMemory) {
				t.Fatalf("a MemoryStore and Request.Decide must agree, -definitions-seed=%d:\n%v", seed+i, run)
			}
			continue
		}
		_, wrong = definitions.Shrink(run, func(r definitions.Run) string {
			_, _, wrong := definitions.Play(t, r, forkable())
			return wrong
		})
		t.Fatalf("-definitions-seed=%d:\n%s", seed+i, wrong)
	}
	t.Logf("%d decisions", decisions)
}

// forkable returns an empty store that can be copied, with its clock.
func forkable() definitions.World {
	clock := limittest.NewClock()
	store := limittest.NewDecidingStore(clock.Now)
	return definitions.World{Store: store, Clock: clock, Fork: func() (core.Store, *limittest.Clock) {
		clock := limittest.ClockAt(clock.Now())
		fork := limittest.NewDecidingStore(clock.Now)
		fork.States = maps.Clone(store.States)
		return fork, clock
	}}
}
