package redisstore_test

import (
	"flag"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/definitions"
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
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{}) // keys don't expire by the server's own clock
	prefix := redistest.Prefix()
	seed := *definitionsSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	keys, decisions := 0, 0
	for i := range uint64(*definitionsRuns) {
		fails := func(run definitions.Run) string {
			clock := limittest.NewClock()
			keys++
			seen, n, wrong := definitions.Play(t, run, definitions.World{Key: strconv.Itoa(keys), Clock: clock,
				Store: redisstore.New(client, redisstore.WithPrefix(prefix), core.WithClock(clock.Now), longTimeout)})
			if decisions += n; wrong != "" {
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
		}
		run := definitions.Draw(rand.New(rand.NewPCG(seed+i, 0)))
		if fails(run) != "" {
			_, wrong := definitions.Shrink(run, fails)
			t.Fatalf("-definitions-seed=%d:\n%s", seed+i, wrong)
		}
	}
	t.Logf("%d decisions", decisions)
}
