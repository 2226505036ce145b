package redisstore_test

import (
	"context"
	"errors"
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
)

// remote is a store that another machine has: calls take time and fail as the
// test says.
type remote struct {
	store.JointStore

	mu            sync.Mutex    // guards all below
	before, after time.Duration // how long a call takes until it is executed, and from then on
	fails         func() error  // nil: it answers
	times         []int64       // of the calls for decisions: how many requests each was for
}

// late has calls take so long until they are executed, and from then on.
func (s *remote) late(before, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func (s *remote) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	s.mu.Lock()
	if r.Action == bucket.Take && r.Moves() {
		s.times = append(s.times, max(1, r.Times))
	}
	before, after, fails := s.before, s.after, s.fails
	s.mu.Unlock()
	time.Sleep(before)
	if fails != nil {
		return store.Answer{}, fails()
	}
	a, err := s.JointStore.Do(ctx, r)
	time.Sleep(after)
	return a, err
}

const capacity = 10_000

// noRefill is a limit whose tokens do not come back while a test runs.
var noRefill = core.Limit{Name: "a", Capacity: capacity, RefillRate: capacity, RefillInterval: 100 * 24 * time.Hour, Mode: core.Stepped}

// process is one with leases of up to 64 tokens of a key, in a synctest bubble.
type process struct {
	*testing.T
	*core.Limiter

	remote *remote
	leases *redisstore.Leases
	direct *core.Limiter // without leases
	used   int64         // tokens of the key, since direct was asked first
}

// run runs a test with a process of a policy with these limits.
func run(t *testing.T, test func(p *process), limits ...core.Limit) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		memory := core.NewMemoryStore()
		p := &process{T: t, remote: &remote{JointStore: memory}}
		p.leases = redisstore.LeasesAround(p.remote, 64)
		policy := core.Policy{Name: "api", Limits: limits, OnFailure: core.FailClosed}
		p.Limiter, p.direct = core.Must(core.NewLimiter(p.leases, policy)), core.Must(core.NewLimiter(memory, policy))
		test(p)
	})
}

// takes takes n tokens, and returns who decided.
func (p *process) takes(n int64) core.Source {
	p.Helper()
	res, err := p.AllowN(p.Context(), "k", n)
	require.NoError(p, err)
	require.True(p, res.Allowed)
	p.used += n
	return res.Source
}

// busy makes the key busy, with a lease of 32 tokens of which 30 are left: those
// of 1, 2, 4, 8 and 16 are used up.
func (p *process) busy() {
	p.Helper()
	for range 40 {
		p.takes(1)
	}
	require.EqualValues(p, capacity-p.used-30, p.left(), "premise: 30 tokens are on lease")
}

// left is how many tokens the bucket has: those on lease have left it.
func (p *process) left() int64 {
	p.Helper()
	synctest.Wait()
	res, err := p.direct.Peek(p.Context(), "k")
	require.NoError(p, err)
	return res.Remaining
}

// idle waits until all leases are over.
func (p *process) idle() {
	p.Helper()
	time.Sleep(time.Second)
	assert.Equal(p, capacity-p.used, p.left(), "what was used is taken, and all else has come back")
}

func TestALeaseLasts100msFromWhenItsCallWasSent(t *testing.T) {
	for name, took := range map[string][2]time.Duration{
		"at once": {}, "executed late": {60 * time.Millisecond, 0}, "answered late": {0, 60 * time.Millisecond}, "both": {30 * time.Millisecond, 30 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(p *process) {
				p.busy()
				p.takes(30)
				p.remote.late(took[0], took[1])
				sent := time.Now()
				p.takes(1)
				p.remote.late(0, 0)
				time.Sleep(time.Until(sent.Add(100*time.Millisecond - 1)))
				assert.Equal(t, core.FromLease, p.takes(1), "the lease is used for 100 ms")
				assert.Less(t, p.left(), capacity-p.used, "premise: it is not used up")
				time.Sleep(time.Nanosecond)
				assert.Equal(t, capacity-p.used, p.left(), "the rest has come back")
				assert.Equal(t, core.FromStore, p.takes(1), "and is used no more")
			}, noRefill)
		})
	}
	t.Run("answered too late", func(t *testing.T) {
		run(t, func(p *process) {
			p.busy()
			p.takes(30)
			p.remote.late(0, 100*time.Millisecond)
			p.takes(1)
			p.remote.late(0, 0)
			assert.Equal(t, capacity-p.used, p.left(), "the lease comes back as it comes")
			assert.Equal(t, core.FromStore, p.takes(1))
			p.idle()
		}, noRefill)
	})
}

// The timer that gives a lease back may be late: here the time of the system
// stands still.
func TestALeaseIsOverByTheClockOfItsStore(t *testing.T) {
	for age, source := range map[time.Duration]core.Source{
		-1: core.FromStore, 0: core.FromLease, 100*time.Millisecond - 1: core.FromLease, 100 * time.Millisecond: core.FromStore,
	} {
		synctest.Test(t, func(t *testing.T) {
			now := time.Now()
			s := redisstore.LeasesAround(core.NewMemoryStore(core.WithClock(func() time.Time { return now })), 64)
			l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{noRefill}}))
			allow := func() core.Result {
				res, err := l.Allow(t.Context(), "k")
				require.NoError(t, err)
				return res
			}
			for range 40 {
				allow()
			}
			full := allow().ResetAfter
			now = now.Add(age)
			res := allow()
			assert.Equal(t, source, res.Source, "%v after the lease was asked for", age)
			if source == core.FromLease {
				assert.Equal(t, full-age.Truncate(time.Microsecond), res.ResetAfter)
			}
			s.GiveBack()
		})
	}
}

func TestSizeOfALease(t *testing.T) {
	every := func(pause time.Duration, n int) func(p *process) {
		return func(p *process) {
			for range n {
				p.takes(1)
				time.Sleep(pause)
			}
		}
	}
	for _, rule := range []struct {
		name  string
		limit core.Limit
		use   func(p *process)
		calls []int64 // how many requests the calls were for
	}{
		{"doubles up to the most, if it lasts less than 50 ms", noRefill, every(0, 200), []int64{1, 2, 3, 5, 9, 17, 33, 65, 65}},
		{"stays, if it lasts 50 to 200 ms", noRefill, every(20*time.Millisecond, 12), []int64{1, 2, 3, 3, 3}},
		{"is none, if requests are rare", noRefill, every(60*time.Millisecond, 4), []int64{1, 1, 1, 1}},
		{"is a tenth of the capacity at most", core.PerDay(70), every(0, 30), []int64{1, 2, 3, 5, 8, 8, 8}},
		{"is half of what was left at most", core.PerDay(1000), func(p *process) {
			p.takes(980)
			every(0, 20)(p)
		}, []int64{1, 2, 3, 5, 6, 3, 1}},
		{"is of whole requests", noRefill, func(p *process) {
			for range 6 {
				p.takes(3)
			}
		}, []int64{1, 1, 1, 2, 3}},
	} {
		t.Run(rule.name, func(t *testing.T) {
			run(t, func(p *process) {
				rule.use(p)
				assert.Equal(t, rule.calls, p.remote.times)
			}, rule.limit)
		})
	}
}

// Of 6 limits, as lists of up to 4 are stored otherwise.
func TestWhatIsLeftIncludesTheLease(t *testing.T) {
	var limits []core.Limit
	for i := range int64(6) {
		limits = append(limits, core.PerDay(1000+i).WithName(string('a'+rune(i))))
	}
	run(t, func(p *process) {
		sources := map[core.Source]bool{}
		for range 100 {
			res, err := p.AllowN(p.Context(), "k", 2)
			require.NoError(t, err)
			p.used += 2
			sources[res.Source] = true
			for i, l := range res.Limits() {
				require.Equal(t, 1000+int64(i)-p.used, l.Remaining, "limit %d, decided by %s", i, res.Source)
			}
		}
		assert.Len(t, sources, 2, "premise: the store and leases decided")
	}, limits...)
}

// leased takes 5 tokens of the lease.
func (p *process) leased() core.Result {
	p.Helper()
	res, err := p.AllowN(context.Background(), "k", 5)
	require.NoError(p, err)
	require.Equal(p, core.FromLease, res.Source, "premise")
	return res
}

// Calls that no lease decides, and what each takes.
func TestOtherCallsAskTheStore(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name string
		took int64
		call func(p *process) (core.Result, error)
	}{
		{"Peek", 0, func(p *process) (core.Result, error) { return p.Peek(ctx, "k") }},
		{"a lot", 2000, func(p *process) (core.Result, error) { return p.AllowN(ctx, "k", 2000) }},
		{"AllowAtMost", 7, func(p *process) (core.Result, error) { return p.AllowAtMost(ctx, "k", 7) }},
		{"AllowUnits", 3, func(p *process) (core.Result, error) { return p.AllowUnits(ctx, "k", core.Units{core.Requests: 3}) }},
		{"Reserve", 2, func(p *process) (core.Result, error) { return p.Reserve(ctx, "k", 2) }},
		{"Cancel", 0, func(p *process) (core.Result, error) {
			r, err := p.Reserve(ctx, "k", 2)
			require.NoError(p, err)
			return r, r.Undo(ctx)
		}},
		{"Undo of a decision on the lease", 0, func(p *process) (core.Result, error) {
			res := p.leased()
			return core.Result{}, res.Undo(ctx)
		}},
		{"Settle of a decision on the lease", 9, func(p *process) (core.Result, error) {
			res := p.leased()
			return core.Result{}, res.Settle(ctx, core.Units{core.Requests: 9})
		}},
		{"Refund", -9, func(p *process) (core.Result, error) { return core.Result{}, p.Refund(ctx, "k", 9) }},
		{"Debit", 9, func(p *process) (core.Result, error) { return core.Result{}, p.Debit(ctx, "k", 9) }},
		{"together", 4, func(p *process) (core.Result, error) {
			return core.AllowTogether(ctx, core.Charge{Limiter: p.Limiter, Key: "k", Cost: 4}, core.Charge{Limiter: p.Limiter, Key: "other"})
		}},
		{"other limits", 1, func(p *process) (core.Result, error) {
			return core.Must(p.WithLimits(noRefill, core.PerDay(100).WithName("b"))).Allow(ctx, "k")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, func(p *process) {
				p.busy()
				res, err := c.call(p)
				require.NoError(t, err)
				assert.Equal(t, core.FromStore, res.Source)
				p.used += c.took
				assert.Equal(t, core.FromLease, p.takes(1), "the lease stays")
				p.idle()
			}, noRefill)
		})
	}
}

func TestOnlyPlainLimitsOfRequestsAreLeased(t *testing.T) {
	for name, limits := range map[string][]core.Limit{
		"slots": {noRefill, core.InFlight(1000)}, "a calendar": {core.PerMonth(capacity)}, "another unit": {noRefill, core.PerDay(1000).WithUnit("tokens")},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(p *process) {
				for range 20 {
					assert.Equal(t, core.FromStore, p.takes(1))
				}
			}, limits...)
		})
	}
}

// A caller whose context ends gets no tokens, and those that the call takes for
// it come back. The lease of that call stays.
func TestACallerWhoLeavesTakesNothing(t *testing.T) {
	run(t, func(p *process) {
		p.busy()
		p.takes(30)
		p.remote.late(0, 50*time.Millisecond)
		ctx, leave := context.WithTimeout(p.Context(), 10*time.Millisecond)
		defer leave()
		_, err := p.AllowN(ctx, "k", 3)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = p.AllowN(ctx, "k", 3)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		p.remote.late(0, 0)
		time.Sleep(50 * time.Millisecond)
		assert.Equal(t, core.FromLease, p.takes(30), "the lease is there")
		p.idle()
	}, noRefill)
}

// Of callers that come at once, as many wait for a lease as that is for. The
// others ask the store, which may answer them by one call.
func TestACrowdDoesNotWaitInTurns(t *testing.T) {
	run(t, func(p *process) {
		p.busy()
		p.remote.late(0, 10*time.Millisecond)
		p.takes(30)
		p.remote.times = nil
		began := time.Now()
		var all sync.WaitGroup
		var leased atomic.Int64
		for range 500 {
			all.Go(func() {
				res, err := p.Allow(p.Context(), "k")
				assert.NoError(t, err)
				if res.Source == core.FromLease {
					leased.Add(1)
				}
			})
		}
		all.Wait()
		p.used += 500
		assert.Equal(t, 10*time.Millisecond, time.Since(began), "all are decided in the time of one call")
		assert.EqualValues(t, 64, leased.Load(), "the lease decided for those who waited")
		p.idle()
	}, noRefill)
}

// The bucket of a busy key is empty. A lease is tried once in 100 ms.
func TestNothingIsLeasedFromAnEmptyBucket(t *testing.T) {
	run(t, func(p *process) {
		p.takes(99)
		p.remote.times = nil
		for range 1000 {
			_, err := p.Allow(p.Context(), "k")
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
		leases := 0
		for _, times := range p.remote.times {
			if times > 1 {
				leases++
			}
		}
		assert.Positive(t, leases)
		assert.LessOrEqual(t, leases, 10, "calls that ask for a lease, in 1 s")
		time.Sleep(time.Hour)
		for range 20 {
			p.takes(1)
		}
		assert.Equal(t, core.FromLease, p.takes(1), "when the bucket is full, there are leases again")
	}, core.PerHour(100))
}

// All who wait for a call that fails get its error, also that of a panic, which
// would end the process.
func TestACallThatFails(t *testing.T) {
	for name, fails := range map[string]func() error{
		"an error": func() error { return errors.New("nil map") }, "a panic": func() error { panic("nil map") },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(p *process) {
				p.busy()
				p.takes(30)
				p.remote.late(10*time.Millisecond, 0)
				p.remote.fails = fails
				var all sync.WaitGroup
				for range 64 {
					all.Go(func() {
						_, err := p.Allow(p.Context(), "k")
						assert.ErrorIs(t, err, core.ErrUnavailable)
						assert.ErrorContains(t, err, "nil map")
					})
				}
				all.Wait()
				p.remote.fails = nil
				assert.Equal(t, core.FromStore, p.takes(1))
				p.idle()
			}, noRefill)
		})
	}
}

func TestGiveBackEndsAllLeases(t *testing.T) {
	run(t, func(p *process) {
		p.busy()
		p.remote.late(time.Second, 0)
		p.leases.GiveBack()
		assert.Equal(t, capacity-p.used, p.left(), "all tokens are there when GiveBack returns")
		p.remote.late(0, 0)
		p.idle()
	}, noRefill)
}
