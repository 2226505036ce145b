package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/storetest"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// On a Ring the buckets of a decision are on different servers, and the charges
// of one bucket are not.
func TestSharesConformOnARing(t *testing.T) {
	client := ring(t)
	client.AddHook(&redistest.Keeper{})
	storetest.Run(t, func(t *testing.T, clock func() time.Time) core.Store {
		if !strings.Contains(t.Name(), "share") && !strings.Contains(t.Name(), "several_charges") {
			t.Skip("not about shares")
		}
		return redisstore.New(client, core.WithClock(clock), redisstore.WithPrefix(redistest.Prefix()), longTimeout, redisstore.WithLease(64))
	})
}

func TestChargesOfOneBucketThatHoldSomethingCostOneCall(t *testing.T) {
	ctx := t.Context()
	limits := []core.Limit{core.InFlight(9).WithName("slots"), core.PerDay(99).WithName("daily")}
	one, two := redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix()), longTimeout), redisstore.New(ring(t), redisstore.WithPrefix(redistest.Prefix()), longTimeout)
	for name, s := range map[string]*redisstore.Store{"one server": one, "Ring": two} {
		l, other := limittest.Limiter(t, s, "api", limits...), limittest.Limiter(t, s, "other", core.PerDay(9))
		charges := []core.Charge{{Limiter: l, Key: "k"}, {Limiter: l, Key: "k", Cost: 2}}
		want := int64(1)
		if s == one {
			charges = append(charges, core.Charge{Limiter: other, Key: "k"})
		}
		before := s.Stats().Calls
		j, err := core.AllowTogether(ctx, charges...)
		require.NoError(t, err)
		assert.True(t, j.Allowed)
		assert.Equal(t, want, s.Stats().Calls-before, "%s: calls for one decision", name)
	}
}

// A bucket has tokens on lease under limits without slots. A decision under
// limits with slots divides these beside the lease.
func TestSharesOfABucketWithALease(t *testing.T) {
	ctx := t.Context()
	rate := core.PerSecond(1000).WithName("x")
	b := newLeaseBench(t, rate)
	l := b.process(redisstore.WithLease(100))
	tier := core.Must(l.WithLimits(rate, core.InFlight(5).WithName("slots")))
	b.lead(l, 40)
	j, err := core.AllowTogether(ctx, core.Charge{Limiter: tier, Key: "k", Cost: 2}, core.Charge{Limiter: tier, Key: "k", Cost: 3})
	require.NoError(t, err)
	require.True(t, j.Allowed)
	free := func() int64 { return peek(t, tier).Limits()[1].Remaining }
	assert.EqualValues(t, 0, free())
	require.NoError(t, j.Results[0].Release(ctx))
	assert.EqualValues(t, 2, free(), "a release of the first share")
	require.NoError(t, j.Results[1].Undo(ctx))
	assert.EqualValues(t, 5, free(), "Undo of the second")
}

// Many processes divide the slots of few buckets, with others that take them
// whole. What is out never exceeds what there is, and all comes back.
func TestSharesOfManyProcesses(t *testing.T) {
	const most = 20
	var out [2]slotCount
	var wg sync.WaitGroup
	limiters := slotProcesses(t, 4, core.InFlight(most).WithName("slots"), core.PerDay(1_000_000).WithName("daily"),
		core.PerDay(1_000_000).WithName("tokens").WithUnit("tokens").WithMaxHold(time.Hour))
	ctx := context.Background()
	for n, l := range limiters {
		for i := range 3 {
			wg.Go(func() {
				for round := range 20 {
					k := (n + i + round) % 2
					key := []string{"a", "b"}[k]
					var charges []core.Charge
					for part := range 1 + (round+i)%4 {
						charges = append(charges, core.Charge{Limiter: l, Key: key, Units: core.Units{core.Requests: int64(part % 3), "tokens": int64(part)}})
					}
					j, err := core.AllowTogether(ctx, charges...)
					if !assert.NoError(t, err) || !j.Allowed {
						continue
					}
					for _, c := range charges {
						out[k].add(t, c.Units[core.Requests], most)
					}
					var parts sync.WaitGroup
					for p := range j.Results {
						parts.Go(func() {
							out[k].add(t, -charges[p].Units[core.Requests], most)
							assert.NoError(t, errors.Join(j.Results[p].Release(ctx), j.Results[p].Settle(ctx, core.Units{"tokens": 0})))
						})
					}
					parts.Wait()
				}
			})
		}
	}
	wg.Wait()
	for _, key := range []string{"a", "b"} {
		res, err := limiters[0].Peek(ctx, key)
		require.NoError(t, err)
		assert.EqualValues(t, most, res.Limits()[0].Remaining, "all slots came back")
		assert.EqualValues(t, 1_000_000, res.Limits()[2].Remaining, "and all estimates")
	}
}

// slotCount is how many slots are out.
type slotCount struct {
	mu sync.Mutex
	n  int64
}

func (c *slotCount) add(t *testing.T, n, most int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n += n; c.n > most {
		t.Errorf("%d slots are out, and there are %d", c.n, most)
	}
}
