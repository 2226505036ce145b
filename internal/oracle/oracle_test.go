// Package oracle plays random histories on both stores and checks what is
// promised of a bucket. It knows the code by its public API alone, and shares
// nothing with it: it computes with big rationals and lists of events.
package oracle

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

var (
	seed      = flag.Uint64("oracle.seed", 0, "seed of the first history; 0: a random one")
	histories = flag.Int("oracle.histories", 0, "how many histories to play; 0: for seconds")
	duration  = flag.Duration("oracle.for", 0, "go on until so much time has passed")
)

// Every history keeps every promise.
func TestMemoryStore(t *testing.T) {
	playHistories(t, soak.Budget(10_000, 80_000), [2]*redis.Client{})
}

// Every history keeps every promise on Redis, which decides like MemoryStore.
func TestRedis(t *testing.T) {
	server := redistest.Start(t) // each history empties it
	playHistories(t, soak.Budget(100, 2000), [2]*redis.Client{server.Client(t), server.Client(t)})
}

func playHistories(t *testing.T, many int, clients [2]*redis.Client) {
	t.Helper()
	from := *seed
	if from == 0 {
		from = rand.Uint64N(1 << 40)
	}
	if *histories > 0 {
		many = *histories
	}
	began, decisions, n := time.Now(), 0, 0
	for ; n < many || time.Since(began) < *duration; n++ {
		h := draw(from + uint64(n))
		made, failed := h.play(clients, nil)
		if decisions += made; failed != nil {
			fails(t, h, from+uint64(n), clients, *failed)
		}
	}
	took := time.Since(began)
	t.Logf("%d histories from seed %d with %d decisions in %v: %.0f a second", n, from, decisions, took.Round(time.Millisecond), float64(decisions)/took.Seconds())
}

// fails reports a history that breaks a promise, without the steps that don't
// matter.
func fails(t *testing.T, h *history, seed uint64, clients [2]*redis.Client, failed broken) {
	t.Helper()
	for i := len(h.ops) - 1; i >= 0; i = min(i-1, len(h.ops)-1) {
		less := *h
		less.ops = slices.Delete(slices.Clone(h.ops), i, i+1)
		if _, still := less.play(clients, nil); still != nil && still.promise == failed.promise {
			h, failed, i = &less, *still, len(less.ops)
		}
	}
	var log []string
	h.play(clients, &log)
	t.Fatalf("broken: %s\n%s\n\nlimits: %v\nsetPolicy: %v, expires: %v\n%s\n\nrepeat it with -run %s -oracle.seed=%d -oracle.histories=1",
		failed.promise, failed.detail, h.limits, h.setPolicy, h.expires, strings.Join(log, "\n"), t.Name(), seed)
}
