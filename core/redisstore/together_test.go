package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// ring is a client of two databases, as of two servers.
func ring(t *testing.T) *redis.Ring {
	t.Helper()
	addr := redistest.Addr(t)
	client := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"one": addr, "two": addr},
		NewClient: func(o *redis.Options) *redis.Client {
			return redis.NewClient(o)
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// togetherLimits are the limits of three policies.
var togetherLimits = [][]core.Limit{
	{core.PerDay(400)},
	{core.PerDay(600), core.PerMonth(5000).WithUnit("tokens")},
	{core.PerWeek(900).WithUnit("tokens"), core.PerDay(500).WithMode(core.Stepped)},
}

// Many goroutines charge random limiters and keys together. Every bucket then
// lacks exactly what the allowed requests cost: no limit admits more than it
// has, and nobody pays for a denial.
func TestTogetherChargesWhatIsAllowed(t *testing.T) {
	clock := limittest.NewClock()
	memory := func(n int) func(*testing.T) []core.Store {
		return func(*testing.T) []core.Store {
			return []core.Store{core.NewMemoryStore(core.WithClock(clock.Now), core.WithMaxKeys(n))}
		}
	}
	onRedis := func(t *testing.T, client redis.UniversalClient, options ...redisstore.Option) core.Store {
		t.Helper()
		return redisstore.New(client, append(options, redisstore.WithPrefix(redistest.Prefix()), longTimeout)...)
	}
	for name, open := range map[string]func(*testing.T) []core.Store{
		"memory, one shard":   memory(100),
		"memory, many shards": memory(100_000),
		"Redis": func(t *testing.T) []core.Store {
			client := redistest.Client(t)
			client.AddHook(&redistest.Keeper{})
			return []core.Store{onRedis(t, client, core.WithClock(clock.Now))}
		},
		"Redis, its own clock": func(t *testing.T) []core.Store { return []core.Store{onRedis(t, redistest.Client(t))} },
		"Redis, with leases": func(t *testing.T) []core.Store {
			return []core.Store{onRedis(t, redistest.Client(t), redisstore.WithLease(20))}
		},
		"Ring": func(t *testing.T) []core.Store { return []core.Store{onRedis(t, ring(t))} },
		"Redis and memory": func(t *testing.T) []core.Store {
			return []core.Store{onRedis(t, redistest.Client(t)), core.NewMemoryStore()}
		},
		"two on Redis": func(t *testing.T) []core.Store {
			return []core.Store{onRedis(t, redistest.Client(t)), onRedis(t, redistest.Client(t))}
		},
		"with a store that fails": func(t *testing.T) []core.Store {
			return []core.Store{onRedis(t, redistest.Client(t)), &flakyStore{Store: core.NewMemoryStore()}}
		},
		"with a store that fails after executing": func(t *testing.T) []core.Store {
			return []core.Store{onRedis(t, redistest.Client(t)), &flakyStore{Store: core.NewMemoryStore(), executes: true}}
		},
		"stores that fail after executing, and give nothing back": func(t *testing.T) []core.Store {
			return []core.Store{
				&flakyStore{Store: onRedis(t, redistest.Client(t)), executes: true, keeps: true},
				&flakyStore{Store: core.NewMemoryStore(), executes: true, keeps: true},
			}
		},
		"one step that fails after executing": func(t *testing.T) []core.Store {
			s := onRedis(t, redistest.Client(t))
			return []core.Store{&flakyJointStore{flakyStore{Store: s, executes: true, keeps: true}, s.(store.JointStore)}}
		},
	} {
		for _, mode := range []core.FailureMode{core.FailClosed, core.FailLocal, core.FailOpen} {
			t.Run(fmt.Sprint(name, ", ", mode), func(t *testing.T) {
				if mode != core.FailClosed && !strings.Contains(name, "fail") { // where no store fails the mode does not matter
					soak.Only(t, TestTogetherChargesWhatIsAllowed) // with FailClosed
				}
				chargeTogether(t, open(t), mode)
			})
		}
	}
}

func chargeTogether(t *testing.T, stores []core.Store, mode core.FailureMode) {
	ctx := context.Background()
	var limiters, references []*core.Limiter // two of each policy
	for i, limits := range togetherLimits {
		for _, list := range []*[]*core.Limiter{&limiters, &references} {
			*list = append(*list, core.Must(core.NewLimiter(stores[i%len(stores)], core.Policy{Name: fmt.Sprint("p", i), Limits: limits, OnFailure: mode})))
		}
	}
	var (
		spent   spentTokens
		wg      sync.WaitGroup
		allowed atomic.Int64
		denied  atomic.Int64
	)
	for range 8 {
		wg.Go(func() {
			for range 60 {
				charges, at := randomCharges(limiters, references)
				j, err := core.AllowTogether(ctx, charges...)
				if err != nil {
					if !errors.Is(err, core.ErrUnavailable) {
						t.Error(err)
					}
					continue
				}
				if !j.Allowed {
					denied.Add(1)
					continue
				}
				allowed.Add(1)
				if rand.IntN(10) == 0 && mode == core.FailClosed && len(stores) == 1 {
					if err := j.Undo(ctx); err != nil && !errors.Is(err, core.ErrUnavailable) {
						t.Error(err)
					}
					continue
				}
				for n, res := range j.Parts[:len(at)] {
					if slices.ContainsFunc(charges[:n], func(c core.Charge) bool {
						return c.Limiter == charges[n].Limiter && c.Key == charges[n].Key
					}) {
						continue // it is that charge's decision, of the sum
					}
					for m, l := range res.Limits() {
						if res.Source == core.FromStore || res.Source == core.FromLease {
							spent[at[n][0]][at[n][1]][m].Add(l.Cost)
						}
					}
				}
			}
		})
	}
	wg.Wait()
	if allowed.Load() == 0 || denied.Load() == 0 {
		t.Errorf("premise: %d allowed, %d denied", allowed.Load(), denied.Load())
	}
	spent.check(t, stores, limiters)
}

// keysTogether is how many keys of each limiter are charged together.
const keysTogether = 3

// randomCharges returns charges of different buckets, or two of the first. at
// are the limiters and keys.
func randomCharges(limiters, references []*core.Limiter) (charges []core.Charge, at [][2]int) {
	pairs := rand.Perm(3 * keysTogether)[:1+rand.IntN(4)]
	if rand.IntN(3) == 0 { // two charges of one bucket
		pairs = append(pairs, pairs[0])
	}
	for n, pair := range pairs {
		i, k := pair/keysTogether, pair%keysTogether
		c := core.Charge{Limiter: limiters[i], Key: fmt.Sprint("k", k), Cost: rand.Int64N(20)}
		if n > 0 && rand.IntN(2) == 0 {
			c.Limiter = references[i]
		}
		if len(togetherLimits[i]) > 1 && rand.IntN(2) == 0 {
			c.Units = core.Units{"tokens": rand.Int64N(60)}
		}
		charges, at = append(charges, c), append(at, [2]int{i, k})
	}
	return charges, at
}

// spentTokens are what allowed requests cost, by limiter, key and limit.
type spentTokens [3][keysTogether][2]atomic.Int64

// check compares them with what the buckets lack, after leases have been given
// back.
func (spent *spentTokens) check(t *testing.T, stores []core.Store, limiters []*core.Limiter) {
	t.Helper()
	ctx := context.Background()
	for _, s := range stores {
		if s, ok := s.(*redisstore.Store); ok {
			s.GiveBack()
		}
	}
	lost := func(i, k, m int) (n int64) {
		if s, ok := stores[i%len(stores)].(interface{ lostOf(string) int64 }); ok {
			n = s.lostOf(fmt.Sprintf("p%d k%d %d", i, k, m))
		}
		return n
	}
	for i, l := range limiters {
		for k := range keysTogether {
			res, err := l.Peek(ctx, fmt.Sprint("k", k))
			for err != nil || res.Source != core.FromStore {
				res, err = l.Peek(ctx, fmt.Sprint("k", k))
			}
			for m, limit := range res.Limits() {
				got, want := limit.Limit.Capacity-limit.Remaining-lost(i, k, m), spent[i][k][m].Load()
				if got > want || got < want-5 { // in the seconds of the test some tokens refill, where the clock is real
					t.Errorf("limit %q of policy %d, key %d: %d tokens are gone, but the allowed requests cost %d", limit.Limit.Name, i, k, got, want)
				}
				if want > limit.Limit.Capacity+5 {
					t.Errorf("limit %q of policy %d, key %d admitted %d of %d", limit.Limit.Name, i, k, want, limit.Limit.Capacity)
				}
			}
		}
	}
}

// A policy in shadow mode denies nothing, and takes nothing where another one
// denies.
func TestTogetherWithAShadowPolicy(t *testing.T) {
	ctx := t.Context()
	for name, stores := range map[string][2]core.Store{
		"two stores": {core.NewMemoryStore(), storeOn(redistest.Client(t))},
		"Redis":      {storeOn(redistest.Client(t))},
	} {
		if stores[1] == nil {
			stores[1] = stores[0]
		}
		strict := limittest.Limiter(t, stores[0], "strict", core.PerDay(3))
		shadow, err := core.NewLimiter(stores[1], core.Policy{Name: "shadow", Limits: []core.Limit{core.PerDay(2)}, Shadow: true})
		require.NoError(t, err)
		for n := range 5 {
			j, err := core.AllowTogether(ctx, core.Charge{Limiter: shadow, Key: "k"}, core.Charge{Limiter: strict, Key: "k"})
			require.NoError(t, err)
			assert.Equal(t, n < 3, j.Allowed, "%s: request %d", name, n)
			assert.Equal(t, n == 2 || n > 2, j.Parts[0].ShadowDenied, "%s: request %d", name, n)
			if n > 0 {
				require.NoError(t, j.Settle(ctx, core.Units{core.Requests: 1}))
			} else {
				require.NoError(t, j.Undo(ctx))
				require.NoError(t, shadow.Debit(ctx, "k", 1))
				require.NoError(t, strict.Debit(ctx, "k", 1))
			}
		}
		assert.EqualValues(t, 0, limittest.Left(t, strict, "k"))
		res, err := shadow.Peek(ctx, "k")
		require.NoError(t, err)
		assert.EqualValues(t, 0, res.Remaining)
	}
}
