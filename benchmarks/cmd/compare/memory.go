package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

// memoryKeys is how many clients a process limits by itself.
const memoryKeys = 100_000

// memory measures limiters in this process, asked from as many goroutines as run at once.
func (s *suite) memory(ctx context.Context) error {
	hot, err := s.inMemory(ctx, []string{"everyone"})
	if err != nil {
		return err
	}
	keys := names(memoryKeys)
	many, err := s.inMemory(ctx, keys)
	if err != nil {
		return err
	}

	rows := [][]string{{"ns, allocations", "one key", "100,000 keys", "bytes per key"}}
	oneBase, manyBase := measure.Named(hot, peers.XTime), measure.Named(many, peers.XTime)
	var ourBytes float64
	for i, peer := range peers.InMemory {
		bytes, err := bytesPerKey(ctx, peer, keys)
		if err != nil {
			return err
		}
		if peer.Name == peers.Library {
			ourBytes = bytes
		}
		rows = append(rows, []string{
			peer.Name,
			perCore(hot[i], oneBase) + ", " + report.Number(hot[i].Median(measure.Allocs)),
			perCore(many[i], manyBase) + ", " + report.Number(many[i].Median(measure.Allocs)),
			fmt.Sprintf("%.0f", bytes),
		})
	}
	ours := measure.Named(many, peers.Library)
	s.target(report.AtMost("MemoryStore, one hot key, parallel", peers.XTime,
		measure.Named(hot, peers.Library).Ratio(oneBase, measure.Nanos), 1))
	s.target(report.AtMost("MemoryStore, 100,000 keys, parallel", peers.GoLimiter, ours.Ratio(measure.Named(many, peers.GoLimiter), measure.Nanos), 1))
	s.target(report.UpTo("MemoryStore, 100,000 keys", "B a key", ourBytes, 130))
	s.target(report.None("MemoryStore, both", "allocations",
		max(measure.Named(hot, peers.Library).Median(measure.Allocs), ours.Median(measure.Allocs))))
	s.section("In process", "Time of one core for a decision, while all cores decide; ratios to x/time/rate. Bytes: growth of the live heap, without the caller's key.", rows)
	return nil
}

// perCore is withRatio of the time that one core takes for a decision.
func perCore(v, base measure.Series) string {
	return withRatioOf(v, base, measure.Nanos, float64(runtime.GOMAXPROCS(0)))
}

// inMemory measures keys that all exist already.
func (s *suite) inMemory(ctx context.Context, keys []string) ([]measure.Series, error) {
	asked := asRequested(keys)
	var contenders []measure.Contender
	for _, peer := range peers.InMemory {
		decide, err := filled(ctx, peer, keys)
		if err != nil {
			return nil, err
		}
		contenders = append(contenders, decider(ctx, peer.Name, decide, asked, true))
	}
	return measure.Interleave(contenders, measure.Options{Goroutines: runtime.GOMAXPROCS(0), Rounds: s.rounds, Round: s.round})
}

// asRequested are the keys as traffic brings them: in another order than they first came in, and as
// strings of their own. Else memory would be read in sequence, and a store that keeps its caller's string
// would find it equal without a look at its bytes.
func asRequested(keys []string) []string {
	asked := slices.Clone(keys)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
	for i := range asked {
		asked[i] = strings.Clone(asked[i])
	}
	return asked
}

// filled is a limiter that has met each key.
func filled(ctx context.Context, peer peers.Memory, keys []string) (peers.Decide, error) {
	decide, err := peer.New(vast)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", peer.Name, err)
	}
	for _, key := range keys {
		if err := decide.Expect(ctx, key, true); err != nil {
			return nil, fmt.Errorf("%s: %w", peer.Name, err)
		}
	}
	return decide, nil
}

func bytesPerKey(ctx context.Context, peer peers.Memory, keys []string) (float64, error) {
	grown, err := measure.HeapGrowth(func() (any, error) { return filled(ctx, peer, keys) })
	return float64(grown) / float64(len(keys)), err
}
