package oracle

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// lease is for how long tokens on lease may be used.
const lease = 100 * time.Millisecond

// call is a call that took tokens between two instants, in µs; of a negative
// number it gave them back.
type call struct{ from, to, tokens int64 }

// crowd is processes that ask for the same keys at once, by the real clock.
type crowd struct {
	*testing.T
	began     time.Time
	decisions atomic.Int64
	leased    atomic.Int64 // of these, on leases
	inUse     atomic.Int64 // slots
	mu        sync.Mutex
	calls     map[string][]call // by limiter and key
}

var crowdLimits = map[string][]core.Limit{
	"continuous": {core.PerSecond(2000).WithBurst(300)},
	"stepped":    {core.Per(100, 50*time.Millisecond).WithMode(core.Stepped).WithBurst(200)},
	"aligned":    {core.Per(100, 100*time.Millisecond).WithMode(core.Aligned), core.PerSecond(1500).WithName("second")},
}

const crowdSlots = 5

// From any number of processes, with leases and several keys in one decision,
// a window of d admits at most MaxIn(d + 100 ms). Never more slots than the
// capacity are in use, and in the end all come back.
func TestProcesses(t *testing.T) {
	memory := core.NewMemoryStore()
	t.Run("MemoryStore", func(t *testing.T) { playCrowd(t, 0, memory, memory) })
	t.Run("Redis", func(t *testing.T) {
		var stores []core.Store
		prefix := redistest.Prefix()
		for range 3 {
			s := redisstore.New(redistest.Client(t), redisstore.WithPrefix(prefix), redisstore.WithTimeout(10*time.Second), redisstore.WithLease(100))
			t.Cleanup(func() { _ = s.Close() })
			stores = append(stores, s)
		}
		playCrowd(t, lease, stores...)
	})
}

func playCrowd(t *testing.T, more time.Duration, stores ...core.Store) {
	c := &crowd{T: t, began: time.Now(), calls: make(map[string][]call)}
	limit := time.Duration(soak.Budget(1000, 10_000)) * time.Millisecond
	var all sync.WaitGroup
	for _, s := range stores {
		limiters := make(map[string]*core.Limiter)
		for name, limits := range crowdLimits {
			limiters[name] = core.Must(core.NewLimiter(s, core.Policy{Name: name, Limits: limits, OnFailure: core.FailClosed}))
		}
		slots := core.Must(core.NewLimiter(s, core.Policy{Name: "slots", Limits: []core.Limit{core.InFlight(crowdSlots)}, OnFailure: core.FailClosed}))
		for range 3 {
			all.Go(func() {
				for time.Since(c.began) < limit {
					c.ask(limiters)
					c.use(slots)
				}
			})
		}
	}
	all.Wait()
	t.Logf("%d decisions, %d of them on leases", c.decisions.Load(), c.leased.Load())
	if more > 0 && c.leased.Load() == 0 {
		t.Error("the premise: busy keys are decided on leases")
	}
	for name, limits := range crowdLimits {
		for _, l := range limits {
			c.windows(name+" k", define(l), more)
			c.windows(name+" busy", define(l), more)
		}
	}
	fresh := core.Must(core.NewLimiter(stores[0], core.Policy{Name: "slots", Limits: []core.Limit{core.InFlight(crowdSlots)}}))
	if r, err := fresh.Peek(context.Background(), "k"); err != nil || r.Remaining != crowdSlots {
		t.Errorf("slots: each comes back: %d of %d are free, %v", r.Remaining, crowdSlots, err)
	}
}

// ask asks for tokens: of a busy key that is only asked for tokens, and so goes
// on lease, or of others, in part together, which some give back.
func (c *crowd) ask(limiters map[string]*core.Limiter) {
	ctx := context.Background()
	for range 50 {
		name, n, key := []string{"continuous", "stepped", "aligned"}[rand.IntN(3)], 1+rand.Int64N(2), []string{"k", "busy"}[rand.IntN(2)]
		from := time.Since(c.began).Microseconds()
		if key == "k" && rand.IntN(20) == 0 {
			whole, _ := allowTogether(core.Charge{Limiter: limiters["continuous"], Key: key, Cost: n}, core.Charge{Limiter: limiters["stepped"], Key: key, Cost: n})
			if c.decided(whole.failed); whole.allowed {
				c.note("continuous k", from, n)
				c.note("stepped k", from, n)
			}
			continue
		}
		r, err := limiters[name].AllowN(ctx, key, n)
		if c.decided(err); r.Source == core.FromLease {
			c.leased.Add(1)
		}
		if !r.Allowed {
			continue
		}
		if c.note(name+" "+key, from, n); key == "k" && rand.IntN(10) == 0 {
			from := time.Since(c.began).Microseconds()
			if err := r.Undo(ctx); err != nil {
				c.Error(err)
			}
			c.note(name+" "+key, from, -n)
		}
	}
}

func (c *crowd) decided(err error) {
	if c.decisions.Add(1); err != nil {
		c.Error(err)
	}
}

// note notes a call that has just returned.
func (c *crowd) note(name string, from, tokens int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[name] = append(c.calls[name], call{from, time.Since(c.began).Microseconds() + 1, tokens})
}

// use uses slots for a moment.
func (c *crowd) use(slots *core.Limiter) {
	n := 1 + rand.Int64N(2)
	r, err := slots.AllowN(context.Background(), "k", n)
	if c.decided(err); !r.Allowed {
		return
	}
	if used := c.inUse.Add(n); used > crowdSlots {
		c.Errorf("slots: %d are in use, more than the capacity of %d", used, crowdSlots)
	}
	time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
	c.inUse.Add(-n)
	if err := r.Release(context.Background()); err != nil {
		c.Error(err)
	}
}

// windows checks that no window admits more than its MaxIn. A call counts in
// the windows in which it began and ended. What may have come back in a window
// is taken off it.
func (c *crowd) windows(name string, d *definition, more time.Duration) {
	calls := c.calls[name]
	at := func(k call) int64 {
		if k.tokens < 0 {
			return k.from
		}
		return k.to
	}
	slices.SortFunc(calls, func(a, b call) int { return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a.tokens, b.tokens)) })
	for _, first := range calls {
		sum := int64(0)
		for _, k := range calls {
			if k.from >= first.from || k.tokens < 0 && k.to >= first.from {
				sum += k.tokens
			}
			if steps := ceil(at(k)-first.from+more.Microseconds(), d.step); d.exceeds(sum, d.Capacity, steps) {
				c.Fatalf("a window of d admits at most MaxIn(d + %v): %d of %s from %d to %d µs", more, sum, name, first.from, at(k))
			}
		}
	}
}
