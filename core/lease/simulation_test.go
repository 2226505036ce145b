package lease_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/lease"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// late is a store of one bucket whose calls are executed late and answered
// late. It knows how many tokens of the bucket are used. Each lease gets a
// number, which is the Due of the answers that come from it.
type late struct {
	*core.MemoryStore

	steps atomic.Int64 // counts what happens

	mu     sync.Mutex
	random *rand.Rand
	most   [5]time.Duration // how late a call can be, by kindOf
	used   int64            // since the last Reset, but for what is used on leases
	reset  bool             // there was a Reset
	late   int64            // tokens that came back after a Reset: a bucket that is full has no room for them, so some may be no part of used
	leases []granted
}

// granted is a lease that late has granted.
type granted struct {
	asked int64 // at which step
	gone  bool  // a Reset has forgotten it
	used  int64 // tokens, as onLease counts them
}

// kindOf returns what late's delays depend on.
func kindOf(r *store.Request) int {
	switch {
	case r == nil:
		return 0
	case r.Action == bucket.Lease:
		return 1
	case r.Action == bucket.Refund && r.N == 0 && r.Each == nil:
		return 2
	case r.Action == bucket.Refund:
		return 3
	}
	return 4
}

// pass waits, executes a call, and waits again.
func (s *late) pass(r *store.Request, execute func()) {
	s.mu.Lock()
	most := s.most[kindOf(r)]
	before, after := time.Duration(s.random.Int64N(int64(most)+1)), time.Duration(s.random.Int64N(int64(most)+1))
	s.mu.Unlock()
	time.Sleep(before)
	s.mu.Lock()
	execute()
	s.mu.Unlock()
	time.Sleep(after)
}

func (s *late) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	asked := s.steps.Add(1)
	s.pass(&r, func() {
		a, err = s.MemoryStore.Do(ctx, r)
		if !a.Allowed || r.Dry || r.Key() != "k" {
			return
		}
		switch r.Action {
		case bucket.Refund:
			if s.used -= r.Of(0); s.reset {
				s.late += max(0, r.Of(0)) // of a caller who has left: its tokens may have been taken before the Reset
			}
		case bucket.Lease:
			if s.used += r.N; a.Lent > 0 {
				s.leases = append(s.leases, granted{asked: asked})
				a.Due = int64(len(s.leases))
			}
		default:
			s.used += r.Of(0)
		}
	})
	s.answered(ctx)
	return a, err
}

func (s *late) DoTogether(ctx context.Context, requests []store.Request) (answers []store.JointAnswer, err error) {
	s.pass(&requests[0], func() {
		answers, err = s.MemoryStore.DoTogether(ctx, requests)
		all := true
		for i := range answers {
			all = all && answers[i].Allowed
		}
		for i := range requests {
			if all && requests[i].Key() == "k" {
				s.used += requests[i].Of(0)
			}
		}
	})
	return answers, err
}

func (s *late) Reset(ctx context.Context, policy, key string) (err error) {
	s.pass(nil, func() {
		err = s.MemoryStore.Reset(ctx, policy, key)
		s.used, s.reset = 0, true
		for i := range s.leases {
			s.leases[i].gone = true
		}
	})
	s.answered(ctx)
	return err
}

// answeredKey is for the step at which a call was answered: see answered.
type answeredKey struct{}

// answered notes the current step for the caller, who has a pointer to it in
// ctx.
func (s *late) answered(ctx context.Context) {
	if at, ok := ctx.Value(answeredKey{}).(*int64); ok {
		*at = s.steps.Add(1)
	}
}

// total returns how many tokens are used.
func (s *late) total() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := s.used
	for _, h := range s.leases {
		if !h.gone {
			total += h.used
		}
	}
	return total
}

// watcher is a store around leases that sees what they decide.
type watcher struct {
	*lease.Store

	t      *testing.T
	below  *late
	change atomic.Int64 // the step at which the last Debit or Reset was answered whose caller has the answer
	leased atomic.Int64
}

func (s *watcher) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	change, at := s.change.Load(), int64(0)
	a, err := s.Store.Do(context.WithValue(ctx, answeredKey{}, &at), r)
	if err == nil && r.Action == bucket.Refund && r.Of(0) < 0 {
		s.changed(at)
	}
	if err == nil && a.Source == core.FromLease {
		s.leased.Add(1)
		s.below.mu.Lock()
		defer s.below.mu.Unlock()
		h := &s.below.leases[a.Due-1]
		if r.Action == bucket.Refund {
			h.used -= r.N
			return a, err
		}
		h.used += r.N
		assert.Greater(s.t, h.asked, change, "after a Debit or Reset is answered, nothing is admitted from a lease that was asked for before")
	}
	return a, err
}

func (s *watcher) Reset(ctx context.Context, policy, key string) error {
	at := int64(0)
	err := s.Store.Reset(context.WithValue(ctx, answeredKey{}, &at), policy, key)
	s.changed(at)
	return err
}

// changed notes that a Debit or Reset was answered at a step.
func (s *watcher) changed(at int64) {
	for before := s.change.Load(); before < at && !s.change.CompareAndSwap(before, at); before = s.change.Load() {
	}
}

// simulate has callers use a key in all ways at once. It returns how many
// decisions were made on leases.
//
// If there are resets, nothing is given back: a store can't tell whether tokens
// were taken before the reset.
func simulate(t *testing.T, seed uint64, resets bool) (leased int64) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		below := &late{MemoryStore: core.NewMemoryStore(), random: rand.New(rand.NewPCG(seed, 1))}
		for i := range below.most {
			below.most[i] = [...]time.Duration{0, time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}[random.IntN(4)]
		}
		const capacity = 1_000_000
		limit := core.Limit{Name: "a", Capacity: capacity, RefillRate: capacity, RefillInterval: 100 * 24 * time.Hour, Mode: core.Stepped}
		s := &watcher{Store: lease.New(below, 1+random.Int64N(100), time.Minute), t: t, below: below}
		policy := core.Policy{Name: "api", Limits: []core.Limit{limit}}
		l, plain := core.Must(core.NewLimiter(s, policy)), core.Must(core.NewLimiter(below, policy))
		tier := core.Must(l.WithLimits(limit, core.PerSecond(1_000_000).WithName("b")))
		pause := time.Duration(1 + random.IntN(3_000_000))
		mix := mix{rare: 1 + random.IntN(40), undone: random.IntN(11), resets: resets}
		var wait sync.WaitGroup
		for range 1 + random.IntN(12) {
			random := rand.New(rand.NewPCG(random.Uint64(), 0))
			wait.Go(func() {
				for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Duration(random.Int64N(int64(pause)))) {
					if !assert.NoError(t, mix.use(t, l, tier, random)) {
						return
					}
				}
			})
		}
		wait.Wait()
		time.Sleep(time.Second) // idle leases go back
		synctest.Wait()
		res, err := plain.Peek(t.Context(), "k")
		require.NoError(t, err)
		missing := capacity - below.total() - res.Remaining
		assert.True(t, 0 <= missing && missing <= below.late, "what was used is taken, and no lease holds anything: %d tokens are missing, of %d that came back after a Reset", missing, below.late)
		leased = s.leased.Load()
	})
	return leased
}

// mix is what calls there are.
type mix struct {
	rare   int  // one of so many is another one than Allow
	undone int  // how many of ten Allows are undone: if all are, no bucket has room for a token too much
	resets bool // and nothing is given back
}

// use makes a call.
func (m mix) use(t *testing.T, l, tier *core.Limiter, random *rand.Rand) error {
	ctx, n := t.Context(), 1+random.Int64N(20)
	var err error
	var res core.Result
	if random.IntN(m.rare) > 0 {
		if res, err = l.Allow(ctx, "k"); err == nil && !m.resets && random.IntN(10) < m.undone {
			time.Sleep(time.Duration(random.Int64N(20_000_000)))
			err = res.Undo(ctx)
		}
		return err
	}
	switch random.IntN(12) {
	case 0:
		_, err = l.Peek(ctx, "k")
	case 1:
		_, err = l.AllowN(ctx, "k", 100*n)
	case 2:
		_, err = tier.AllowN(ctx, "k", n)
	case 3:
		_, err = core.AllowTogether(ctx, core.Charge{Limiter: l, Key: "k", Cost: n}, core.Charge{Limiter: l, Key: "other"})
	case 4:
		_, err = l.Reserve(ctx, "k", n)
	case 5, 6:
		if err = l.Debit(ctx, "k", n); err == nil && m.resets {
			err = l.Reset(ctx, "k")
		}
	case 7:
		err = tier.Debit(ctx, "k", n)
	case 8: // the caller leaves
		ctx, cancel := context.WithTimeout(ctx, time.Duration(random.Int64N(20_000_000)))
		defer cancel()
		if _, err = l.AllowN(ctx, "k", n); ctx.Err() != nil {
			return nil
		}
	default:
		if m.resets {
			return nil
		}
		of := [...]*core.Limiter{l, l, tier}[random.IntN(3)]
		if res, err = of.AllowN(ctx, "k", n); err != nil || !res.Allowed {
			return err
		}
		time.Sleep(time.Duration(random.Int64N(20_000_000)))
		if random.IntN(2) > 0 {
			return l.Refund(ctx, "k", n)
		}
		return res.Settle(ctx, core.Units{core.Requests: 2 * random.Int64N(n+1)})
	}
	return err
}

// Whatever calls of one process come between the calls that take, renew and
// settle leases, and however late all of them are executed and answered, a
// lease that is met is settled.
func TestSimulatedLeasesAreSettled(t *testing.T) {
	leased, first := int64(0), rand.Uint64()
	for i := range uint64(soak.Budget(60, 4_000)) {
		if seed := first + i; !t.Failed() {
			t.Log("seed", seed)
			leased += simulate(t, seed, i%2 > 0)
		}
	}
	assert.Positive(t, leased, "premise: leases decide")
}
