package redisstore_test

import (
	"flag"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/definitions"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

var (
	definitionsRuns = flag.Int("definitions", soak.Budget(40, 750), "how many buckets are simulated under several definitions")
	definitionsSeed = flag.Uint64("definitions-seed", 0, "the first seed; 0: a random one")
)

// A bucket under several definitions is the same on Redis as in a MemoryStore:
// each decision and each PeekUnits says the same, and the oracle agrees.
func TestWhatIsUsedStaysUsedUnderSeveralDefinitionsOnRedis(t *testing.T) {
	fails, decisions := storesDiffer(t)
	seed := *definitionsSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	for i := range uint64(*definitionsRuns) {
		run := definitions.Draw(rand.New(rand.NewPCG(seed+i, 0)))
		if fails(run) != "" {
			_, wrong := definitions.Shrink(run, fails)
			t.Fatalf("-definitions-seed=%d:\n%s", seed+i, wrong)
		}
	}
	t.Logf("%d decisions", *decisions)
}

// What is cut may be paid after more periods of a calendar than an empty bucket
// needs: each store then says that it takes for ever.
func TestWhatIsCutForCenturiesIsTheSameOnRedis(t *testing.T) {
	quarterly := core.Limit{Capacity: 1, RefillRate: 1, RefillInterval: 3 * core.Month, Mode: core.Aligned, Location: limitdraw.Zone("Europe/Berlin")}
	monthly := core.Limit{Capacity: 801, RefillRate: 1, RefillInterval: core.Month, Mode: core.Aligned, Location: time.UTC}
	fails, decisions := storesDiffer(t)
	for n := range int64(5) {
		require.Empty(t, fails(definitions.Run{Defs: []core.Limit{quarterly, monthly}, Ops: []definitions.Op{
			{Kind: definitions.Debit, Way: definitions.Other, Def: 1, N: 799 + n},
			{Kind: definitions.Take, Way: definitions.Other, Def: 0, N: 1},
		}}))
	}
	require.NotZero(t, *decisions)
}

// storesDiffer returns a function that plays a run on Redis and in memory, and
// returns how they or the oracle differ, or "". It counts the decisions.
func storesDiffer(t *testing.T) (fails func(definitions.Run) string, decisions *int) {
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{}) // keys don't expire by the server's own clock
	prefix, keys, decisions := redistest.Prefix(), 0, new(int)
	return func(run definitions.Run) string {
		clock := limittest.NewClock()
		keys++
		seen, n, wrong := definitions.Play(t, run, definitions.World{Key: strconv.Itoa(keys), Clock: clock,
			Store: redisstore.New(client, redisstore.WithPrefix(prefix), core.WithClock(clock.Now), longTimeout)})
		if *decisions += n; wrong != "" {
			return wrong
		}
		clock = limittest.NewClock()
		inMemory, _, _ := definitions.Play(t, run, definitions.World{Store: core.NewMemoryStore(core.WithClock(clock.Now)), Clock: clock})
		for i := range seen {
			if i >= len(inMemory) || seen[i] != inMemory[i] {
				return run.String() + "the stores must agree on\n" + seen[i] + "\n" + inMemory[min(i, len(inMemory)-1)] + "\nof\n" +
					strings.Join(seen[:i], "\n")
			}
		}
		return ""
	}, decisions
}
