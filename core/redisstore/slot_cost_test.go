package redisstore

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// slotCost measures what decisions on a key with so many slots in use cost the
// server.
type slotCost struct {
	t      *testing.T
	client *redis.Client
	store  *Store
	set    *bucket.LimitSet
	key    string
	out    []bucket.Ending // the holds of the slots in use
}

func newSlotCost(t *testing.T, client *redis.Client, s *Store, n int) *slotCost {
	rate := bucket.NewRate(bucket.Spec{Capacity: int64(n) + 1, Mode: bucket.Concurrent, MaxHold: time.Hour}, 7)
	c := &slotCost{t, client, s, bucket.NewLimitSet([]bucket.Rate{rate}), fmt.Sprint(n), nil}
	for range n {
		c.take()
	}
	return c
}

func (c *slotCost) do(r bucket.Request, allowed bool) bucket.Answer {
	r.Set = c.set
	a, err := c.store.Do(c.t.Context(), store.NewRequest("api", c.key, r))
	require.NoError(c.t, err)
	require.Equal(c.t, allowed, a.Allowed)
	return a
}

func (c *slotCost) take() {
	ticket := bucket.FirstReturning + rand.Int64N(1<<40)
	a := c.do(bucket.Request{Action: bucket.Acquire, N: 1, Ticket: ticket}, true)
	c.out = append(c.out, bucket.Ending{Ticket: ticket, At: a.Now, Back: 1})
}

func (c *slotCost) release() {
	i := rand.IntN(len(c.out))
	c.do(bucket.Request{Action: bucket.End, Ends: c.out[i]}, true)
	c.out[i] = c.out[len(c.out)-1]
	c.out = c.out[:len(c.out)-1]
}

func (c *slotCost) hold() {
	e := &c.out[rand.IntN(len(c.out))]
	e.At = c.do(bucket.Request{Action: bucket.Acquire, N: 1, Ticket: e.Ticket, Ends: bucket.Ending{Ticket: e.Ticket, At: e.At}}, true).Now
}

// micros returns the server's time for a run of the script, of those that do
// has run.
func (c *slotCost) micros(do func()) float64 {
	ran := func() (runs, micros float64) {
		found := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+),usec=(\d+)`).FindStringSubmatch(c.client.Info(context.Background(), "commandstats").Val())
		require.NotNil(c.t, found, "premise: the server counts its commands")
		runs, _ = strconv.ParseFloat(found[1], 64)
		micros, _ = strconv.ParseFloat(found[2], 64)
		return runs, micros
	}
	runs, before := ran()
	do()
	runsAfter, after := ran()
	return (after - before) / (runsAfter - runs)
}

// TestSlotsCostLittle compares decisions on a key with many slots in use to
// those on one with few. -v shows the figures of docs/choosing-limits.md.
func TestSlotsCostLittle(t *testing.T) {
	client, prefix := redistest.Start(t).Client(t), redistest.Prefix() // its own, because the server counts all commands
	s := New(client, WithPrefix(prefix), WithTimeout(time.Minute), WithDenyCache(0))
	used := []int{1, 10, 100, 1000, 4000}
	costs := make(map[string][]float64)
	rate := bucket.NewLimitSet([]bucket.Rate{bucket.NewRate(bucket.Spec{Capacity: 1e6, RefillRate: 1, RefillInterval: time.Hour}, 7)})
	for i, n := range used {
		c := newSlotCost(t, client, s, n)
		for name, do := range map[string]func(){
			"rate": func() {
				_, err := s.Do(t.Context(), store.NewRequest("rate", "k", bucket.Request{Set: rate, N: 1}))
				require.NoError(t, err)
			},
			"peek":         func() { c.do(bucket.Request{}, true) },
			"hold":         c.hold,
			"take+release": func() { c.take(); c.release() },
		} {
			costs[name] = append(costs[name], math.Inf(1))
			for range soak.Budget(5, 20) {
				costs[name][i] = min(costs[name][i], c.micros(func() {
					for range 50 {
						do()
					}
				}))
			}
		}
		t.Logf("%5d slots in use: rate %.1f µs, peek %.1f, take or release %.1f, hold %.1f; %d bytes", n, costs["rate"][i], costs["peek"][i],
			costs["take+release"][i], costs["hold"][i], client.MemoryUsage(t.Context(), prefix+"api:"+c.key, 0).Val())
	}
	for name, list := range costs {
		if few, many := list[1], list[3]; many > 8*few {
			t.Errorf("%s takes the server %.1f µs with 1,000 slots in use and %.1f with 10: a decision must not read each of them", name, many, few)
		}
	}
}
