package redisstore_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// network is the way of one process to the store: calls are executed late and
// answered late, and may fail in front of that, or behind it.
type network struct {
	store.JointStore

	mu      sync.Mutex
	random  *rand.Rand
	latest  time.Duration // how late a call is executed, and answered, at most
	fails   int           // of 100 calls
	stopped atomic.Bool   // the process is: it gets no answer any more
}

var errLost = errors.New("connection lost")

func (n *network) draw() (before, after time.Duration, fate int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	late := func() time.Duration { return time.Duration(n.random.Int64N(int64(n.latest) + 1)) }
	return late(), late(), n.random.IntN(200)
}

func (n *network) Do(_ context.Context, r store.Request) (store.Answer, error) {
	before, after, fate := n.draw()
	time.Sleep(before)
	if n.stopped.Load() || fate < n.fails {
		return store.Answer{}, errLost
	}
	a, err := n.JointStore.Do(context.Background(), r)
	time.Sleep(after)
	if n.stopped.Load() || fate < 2*n.fails {
		return store.Answer{}, errLost
	}
	return a, err
}

// ledger notes what the processes admit, by the instants of the answers.
type ledger struct {
	mu      sync.Mutex
	entries []entry
	leased  int
}

type entry struct {
	at int64 // µs since 1970
	n  int64 // tokens; below 0: an app gave them back
}

// noting is a store of one process that notes its decisions.
type noting struct {
	store.JointStore
	*ledger
}

func (s noting) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	a, err := s.JointStore.Do(ctx, r)
	if err == nil && a.Allowed && r.Moves() && !r.Dry && r.Key() == "k" {
		n := r.N
		if r.Each != nil {
			n = (*r.Each)[0]
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.entries = append(s.entries, entry{a.Now, n})
		if a.Source == bucket.FromLease {
			s.leased++
			s.entries[len(s.entries)-1].at = time.Now().UnixMicro()
		}
	}
	return a, err
}

// total is how many tokens are used.
func (l *ledger) total() (n int64) {
	for _, e := range l.entries {
		n += e.n
	}
	return n
}

// excess returns by how many millionths of a token a window of d exceeds
// capacity + perSecond × (d + 100 ms) at most, and that window.
func (l *ledger) excess(capacity, perSecond int64) (most, from, to int64) {
	slices.SortStableFunc(l.entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	best := int64(-1 << 62)
	most = best
	sum, first := int64(0), int64(0)
	for _, e := range l.entries {
		at := e.at - l.entries[0].at
		if before := perSecond*at - 1_000_000*sum; before > best {
			best, first = before, e.at
		}
		sum += e.n
		if by := 1_000_000*(sum-capacity) - perSecond*(at+100_000) + best; by > most {
			most, from, to = by, first, e.at
		}
	}
	return most, from, to
}

// traffic is what the callers of a simulation do.
type traffic struct {
	limit    core.Limit
	most     int64 // tokens of a lease
	fails    int   // of 100 calls; also, processes stop
	undone   int   // of 100 decisions
	leaving  int   // of 100 callers
	duration time.Duration
}

// simulate has several processes share a key, each with leases of its own. All
// are busy together, and idle together.
func simulate(t *testing.T, seed uint64, traffic traffic) (l *ledger, left int64) {
	t.Helper()
	l = &ledger{}
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		memory := core.NewMemoryStore()
		policy := core.Policy{Name: "api", Limits: []core.Limit{traffic.limit, core.PerSecond(1_000_000).WithName("b")}, OnFailure: core.FailClosed}
		latest := []time.Duration{0, 0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 150 * time.Millisecond}[random.IntN(6)]
		began := time.Now()
		type burst struct {
			at    time.Duration
			calls int // of each caller, about
		}
		var bursts []burst
		for at := time.Duration(0); at < traffic.duration; at += time.Duration(random.Int64N(int64(500 * time.Millisecond))) {
			bursts = append(bursts, burst{at, 1 + random.IntN(60)})
		}
		var all sync.WaitGroup
		for range 1 + random.IntN(8) {
			way := &network{JointStore: memory, random: rand.New(rand.NewPCG(random.Uint64(), 0)), latest: latest, fails: traffic.fails}
			leases := redisstore.LeasesAround(way, traffic.most)
			limiter := core.Must(core.NewLimiter(noting{leases, l}, policy))
			if traffic.fails > 0 && random.IntN(2) == 0 {
				stops := time.Duration(random.Int64N(int64(traffic.duration)))
				time.AfterFunc(stops, func() { way.stopped.Store(true) })
			}
			for range 1 + random.IntN(4) {
				random := rand.New(rand.NewPCG(random.Uint64(), 0))
				all.Go(func() {
					for _, burst := range bursts {
						time.Sleep(burst.at - time.Since(began))
						for range random.IntN(2 * burst.calls) {
							if way.stopped.Load() {
								return
							}
							traffic.call(limiter, random)
							time.Sleep(time.Duration(random.Int64N(int64(300 * time.Microsecond))))
						}
					}
				})
			}
		}
		all.Wait()
		time.Sleep(time.Second) // leases are over
		synctest.Wait()
		res, err := core.Must(core.NewLimiter(memory, policy)).Peek(t.Context(), "k")
		require.NoError(t, err)
		left = res.Limits()[0].Remaining
	})
	return l, left
}

func (t traffic) call(l *core.Limiter, random *rand.Rand) {
	ctx := context.Background()
	if random.IntN(100) < t.leaving {
		var leave context.CancelFunc
		ctx, leave = context.WithTimeout(ctx, time.Duration(random.Int64N(int64(30*time.Millisecond))))
		defer leave()
	}
	n := int64(1)
	if random.IntN(4) == 0 {
		n += random.Int64N(5)
	}
	if random.IntN(20) == 0 {
		_, _ = l.AllowAtMost(ctx, "other", n)
		_, _ = l.Peek(ctx, "k")
	}
	if res, err := l.AllowN(ctx, "k", n); err == nil && res.Allowed && random.IntN(100) < t.undone {
		time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
		_ = res.Undo(context.Background())
	}
}

// seeds calls test with seeds until one fails.
func seeds(t *testing.T, n int, test func(seed uint64)) {
	t.Helper()
	first := rand.Uint64()
	for i := range uint64(n) {
		if t.Log("seed", first+i); t.Failed() {
			return
		}
		test(first + i)
	}
}

// No token is used twice, and none is lost: without refill, what was admitted is
// what the bucket lacks, when all leases are over.
func TestLeasesOfSeveralProcessesAdmitTheCapacity(t *testing.T) {
	leased := 0
	seeds(t, soak.Budget(40, 800), func(seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		limit := noRefill
		limit.Capacity = []int64{200, 1000, 1_000_000}[random.IntN(3)]
		limit.RefillRate = float64(limit.Capacity)
		l, left := simulate(t, seed, traffic{limit: limit, most: 1 + random.Int64N(100), undone: random.IntN(30), leaving: random.IntN(30), duration: time.Second})
		kept := l.total()
		assert.Equal(t, limit.Capacity, kept+left, "seed %d: %d tokens were used, %d are left", seed, kept, left)
		leased += l.leased
	})
	assert.Positive(t, leased, "premise: leases decide")
}

// Whatever calls fail and however late they are executed and answered, also if
// processes stop.
func TestAWindowAdmitsAtMostMaxInOf100msMore(t *testing.T) {
	leased := 0
	seeds(t, soak.Budget(40, 800), func(seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		capacity := 20 + random.Int64N(300)
		perSecond := 1 + capacity/2 + random.Int64N(4*capacity)
		traffic := traffic{limit: core.PerSecond(float64(perSecond)).WithBurst(capacity), most: 1 + random.Int64N(100), leaving: random.IntN(20), duration: 4 * time.Second}
		if random.IntN(2) == 0 {
			traffic.fails = random.IntN(20)
		} else {
			traffic.undone = random.IntN(20)
		}
		l, _ := simulate(t, seed, traffic)
		most, from, to := l.excess(capacity, perSecond)
		assert.LessOrEqual(t, most, int64(0), "seed %d: %d millionths of a token too many within %d µs, of %d and %d a second", seed, most, to-from, capacity, perSecond)
		leased += l.leased
	})
	assert.Positive(t, leased, "premise: leases decide")
}
