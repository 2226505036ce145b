package lease_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
	"github.com/tokenbucket-go/ratelimit/core/lease"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

func TestLeasesOfSeveralProcessesAdmitTheCapacity(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	below := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	const capacity, processes = 5000, 4
	var admitted, leased atomic.Int64
	var wait sync.WaitGroup
	for range processes {
		s := lease.New(below, 200, time.Minute)
		_, idle := hook.Lease.(func(*lease.Store) (*func() time.Time, *time.Duration))(s)
		*idle = time.Hour
		l, err := core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(capacity)}})
		require.NoError(t, err)
		for range 4 {
			wait.Go(func() {
				for range capacity / processes {
					res, err := l.Allow(t.Context(), "k")
					if !assert.NoError(t, err) {
						return
					}
					if res.Allowed {
						admitted.Add(1)
					}
					if res.Source == core.FromLease {
						leased.Add(1)
					}
				}
				s.GiveBack()
			})
		}
	}
	wait.Wait()
	assert.Positive(t, leased.Load(), "premise: a busy key is decided on leases")
	assert.LessOrEqual(t, admitted.Load(), int64(capacity), "leases admit nothing beyond the limit")
	l, err := core.NewLimiter(below, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(capacity)}})
	require.NoError(t, err)
	res, err := l.Peek(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, int64(capacity), admitted.Load()+res.Remaining, "what was not used has come back")
}

// counting is a store that decides no requests together, and counts the
// refunds.
type counting struct {
	core.Store

	refunds atomic.Int64
}

func (s *counting) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if r.Action == bucket.Refund {
		s.refunds.Add(1)
	}
	return s.Store.Do(ctx, r)
}

// A store settles a lease again if a call with its end failed. The holds of
// slots are not its own.
func TestOnlyLeasesAreSettledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &counting{Store: core.NewMemoryStore()}
		l, err := core.NewLimiter(lease.New(below, 200, time.Minute), core.Policy{Name: "api", Limits: []core.Limit{core.InFlight(5)}})
		require.NoError(t, err)
		for range 3 {
			j, err := core.AllowTogether(t.Context(), core.Charge{Limiter: l, Key: "k", Cost: 2}, core.Charge{Limiter: l, Key: "k", Cost: 3})
			require.NoError(t, err)
			assert.True(t, j.Allowed)
			require.NoError(t, j.Release(t.Context()))
		}
		synctest.Wait()
		assert.Zero(t, below.refunds.Load(), "the store below decides nothing together, so each share is a call, and none is a refund")
	})
}

// gated is a store whose calls a test can hold, before they are executed or
// before they are answered.
type gated struct {
	*core.MemoryStore

	next atomic.Pointer[gate]
}

// gate holds the next call of one kind.
type gate struct {
	holds   func(*store.Request) bool // r is nil of a Reset
	after   bool                      // it is executed first
	release chan struct{}
}

// hold has the next call of a kind wait for release.
func (s *gated) hold(holds func(*store.Request) bool, after bool) *gate {
	g := &gate{holds, after, make(chan struct{})}
	s.next.Store(g)
	return g
}

// pass executes a call, and waits if the gate is for it.
func (s *gated) pass(r *store.Request, execute func()) {
	g := s.next.Load()
	if g == nil || !g.holds(r) || !s.next.CompareAndSwap(g, nil) {
		execute()
		return
	}
	if g.after {
		execute()
	}
	<-g.release
	if !g.after {
		execute()
	}
}

func (s *gated) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	s.pass(&r, func() { a, err = s.MemoryStore.Do(ctx, r) })
	return a, err
}

func (s *gated) Reset(ctx context.Context, policy, key string) (err error) {
	s.pass(nil, func() { err = s.MemoryStore.Reset(ctx, policy, key) })
	return err
}

func ofLease(r *store.Request) bool  { return r != nil && r.Action == bucket.Lease }
func ofChange(r *store.Request) bool { return r == nil || r.Action == bucket.Refund && r.Set != nil }
func ofEnding(r *store.Request) bool { return r != nil && r.Ends.Ticket != 0 }

// settling is a key of 10,000 tokens with a lease, in a synctest bubble: time
// stands still while calls are held.
type settling struct {
	*testing.T

	below    *gated
	leases   *lease.Store
	l, plain *core.Limiter // around leases, and around what is below them
	used     int64
}

const settlingCapacity = 10_000

var settlingLimit = core.Limit{Name: "a", Capacity: settlingCapacity, RefillRate: settlingCapacity, RefillInterval: 100 * 24 * time.Hour, Mode: core.Stepped}

func newSettling(t *testing.T) *settling {
	t.Helper()
	s := &settling{T: t, below: &gated{MemoryStore: core.NewMemoryStore()}}
	s.leases = lease.New(s.below, 64, time.Minute)
	policy := core.Policy{Name: "api", Limits: []core.Limit{settlingLimit}}
	s.l, s.plain = core.Must(core.NewLimiter(s.leases, policy)), core.Must(core.NewLimiter(s.below, policy))
	return s
}

// lead makes the key busy, so that it has a lease with unused tokens.
func (s *settling) lead() {
	s.Helper()
	for range 40 { // leases of 1, 2, 4, 8 and 16 tokens are used up, and a part of one of 32
		s.allow()
	}
	require.Less(s, s.left(), settlingCapacity-s.used, "premise: tokens are on lease")
}

// allow takes a token, and returns who decided.
func (s *settling) allow() core.Source {
	s.Helper()
	res, err := s.l.Allow(s.Context(), "k")
	require.NoError(s, err)
	require.True(s, res.Allowed)
	s.used++
	return res.Source
}

// left is how many tokens the store has that no lease holds.
func (s *settling) left() int64 {
	s.Helper()
	res, err := s.plain.Peek(s.Context(), "k")
	require.NoError(s, err)
	return res.Remaining
}

func (s *settling) idle() {
	s.Helper()
	time.Sleep(time.Second) // leases that nobody uses go back
	synctest.Wait()
	assert.Equal(s, settlingCapacity-s.used, s.left(), "what is not used has come back, and what was used has not")
}

// otherCalls are calls that no lease decides. Each returns how many tokens it
// takes, beside what prepare has taken.
var otherCalls = map[string]func(s *settling) (call func() (took int64, err error)){
	"Peek": func(s *settling) func() (int64, error) {
		return func() (int64, error) { _, err := s.l.Peek(s.Context(), "k"); return 0, err }
	},
	"AllowN that is denied": func(s *settling) func() (int64, error) {
		return func() (int64, error) { _, err := s.l.AllowN(s.Context(), "k", 10_000); return 0, err }
	},
	"AllowAtMost": func(s *settling) func() (int64, error) {
		return func() (int64, error) { res, err := s.l.AllowAtMost(s.Context(), "k", 7); return res.Cost, err }
	},
	"AllowUnits": func(s *settling) func() (int64, error) {
		return func() (int64, error) {
			_, err := s.l.AllowUnits(s.Context(), "k", core.Units{core.Requests: 3})
			return 3, err
		}
	},
	"Reserve": func(s *settling) func() (int64, error) {
		return func() (int64, error) { _, err := s.l.Reserve(s.Context(), "k", 2); return 2, err }
	},
	"Wait": func(s *settling) func() (int64, error) {
		return func() (int64, error) { return 1, s.l.Wait(s.Context(), "k") }
	},
	"Cancel": func(s *settling) func() (int64, error) {
		r, err := s.l.Reserve(s.Context(), "k", 9)
		require.NoError(s, err)
		s.used += 9
		return func() (int64, error) { return -9, r.Cancel(s.Context()) }
	},
	"Undo": func(s *settling) func() (int64, error) {
		res, err := s.l.AllowN(s.Context(), "k", 500)
		require.NoError(s, err)
		s.used += 500
		return func() (int64, error) { return -500, res.Undo(s.Context()) }
	},
	"Refund of more than was used of it": func(s *settling) func() (int64, error) {
		return func() (int64, error) { return -40, s.l.Refund(s.Context(), "k", 40) }
	},
	"RefundUnits": func(s *settling) func() (int64, error) {
		return func() (int64, error) {
			return -40, s.l.RefundUnits(s.Context(), "k", core.Units{core.Requests: 40})
		}
	},
	"Debit": func(s *settling) func() (int64, error) {
		return func() (int64, error) { return 8000, s.l.Debit(s.Context(), "k", 8000) }
	},
	"Settle that charges more": func(s *settling) func() (int64, error) {
		res, err := s.l.Allow(s.Context(), "k")
		require.NoError(s, err)
		s.used++
		return func() (int64, error) { return 99, res.Settle(s.Context(), core.Units{core.Requests: 100}) }
	},
	"Reset": func(s *settling) func() (int64, error) {
		return func() (int64, error) { return -s.used, s.l.Reset(s.Context(), "k") }
	},
	"together": func(s *settling) func() (int64, error) {
		return func() (int64, error) {
			_, err := core.AllowTogether(s.Context(), core.Charge{Limiter: s.l, Key: "k", Cost: 4}, core.Charge{Limiter: s.l, Key: "other"})
			return 4, err
		}
	},
	"together under other limits": func(s *settling) func() (int64, error) {
		tier := s.tier(core.PerDay(100).WithName("b"))
		return func() (int64, error) {
			_, err := core.AllowTogether(s.Context(), core.Charge{Limiter: tier, Key: "k", Cost: 4}, core.Charge{Limiter: tier, Key: "other"})
			return 4, err
		}
	},
	"Allow under other limits": func(s *settling) func() (int64, error) {
		tier := s.tier(core.PerDay(100).WithName("b"))
		return func() (int64, error) { _, err := tier.Allow(s.Context(), "k"); return 1, err }
	},
	"Debit under other limits": func(s *settling) func() (int64, error) {
		tier := s.tier(core.PerDay(100).WithName("b"))
		return func() (int64, error) { return 8000, tier.Debit(s.Context(), "k", 8000) }
	},
	"Allow after SetPolicy": func(s *settling) func() (int64, error) {
		return func() (int64, error) {
			policy := core.Policy{Name: "api", Limits: []core.Limit{settlingLimit, core.PerDay(100).WithName("b")}}
			if err := s.l.SetPolicy(policy); err != nil {
				return 0, err
			}
			_, err := s.l.Allow(s.Context(), "k")
			return 1, err
		}
	},
	"Hold": func(s *settling) func() (int64, error) {
		res, err := s.tier(core.InFlight(5)).Allow(s.Context(), "k")
		require.NoError(s, err)
		s.used++
		time.Sleep(time.Second) // the key is not busy under these limits
		return func() (int64, error) { return 0, res.Hold(s.Context()) }
	},
	"Release": func(s *settling) func() (int64, error) {
		res, err := s.tier(core.InFlight(5)).Allow(s.Context(), "k")
		require.NoError(s, err)
		s.used++
		time.Sleep(time.Second) // the key is not busy under these limits
		return func() (int64, error) { return 0, res.Release(s.Context()) }
	},
}

// tier returns a limiter of the same bucket with one limit more.
func (s *settling) tier(more core.Limit) *core.Limiter {
	s.Helper()
	return core.Must(s.l.WithLimits(settlingLimit, more))
}

func TestEveryOtherCallSettlesTheLeaseThatItMeets(t *testing.T) {
	for name, prepare := range otherCalls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSettling(t)
				call := prepare(s)
				s.lead()
				took, err := call()
				require.NoError(t, err)
				s.used += took
				assert.Equal(t, settlingCapacity-s.used, s.left(), "the lease is settled when the call is answered")
				assert.Equal(t, core.FromStore, s.allow(), "nothing is admitted from the lease any more")
				s.idle()
			})
		})
	}
}

// changes are the calls after whose answers no earlier lease may be used. Each
// returns how many tokens it takes.
var changes = map[string]func(s *settling) (took int64, err error){
	"Debit": func(s *settling) (int64, error) { return 8000, s.l.Debit(s.Context(), "k", 8000) },
	"Reset": func(s *settling) (int64, error) { return 0, s.l.Reset(s.Context(), "k") },
}

// both runs a test of each of these calls, with something that is held before
// it is executed, and before it is answered.
func both(t *testing.T, f func(t *testing.T, s *settling, change func() (took int64, err error), after bool)) {
	t.Helper()
	for name, change := range changes {
		for _, after := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", held before it is executed", true: ", held before it is answered"}[after], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSettling(t)
					f(t, s, func() (int64, error) { return change(s) }, after)
				})
			})
		}
	}
}

// A lease whose answer comes after that of a Debit or a Reset is settled at
// once, and the call does not wait for it.
func TestLeaseUnderWayDoesNotSurviveAChange(t *testing.T) {
	both(t, func(t *testing.T, s *settling, change func() (int64, error), after bool) {
		s.lead()
		renewal := s.below.hold(ofLease, after)
		done := make(chan core.Source)
		go func() {
			res, err := s.l.AllowN(t.Context(), "k", 64)
			assert.NoError(t, err)
			assert.True(t, res.Allowed)
			done <- res.Source
		}()
		synctest.Wait()
		require.Nil(t, s.below.next.Load(), "premise: a lease is under way")
		took, err := change()
		require.NoError(t, err)
		if s.used += took; took == 0 { // a Reset
			s.used = 0
		}
		assert.Equal(t, core.FromStore, s.allow(), "a decision beside it does not wait for the lease")
		close(renewal.release)
		assert.Equal(t, core.FromStore, <-done)
		if took > 0 || !after { // otherwise the Reset has forgotten them
			s.used += 64
		}
		synctest.Wait()
		assert.Equal(t, settlingCapacity-s.used, s.left(), "a lease that comes after the change is settled at once")
		assert.Equal(t, core.FromStore, s.allow(), "nothing is admitted from it")
		s.idle()
	})
}

// While a Debit or a Reset is under way, the store may execute a lease before
// it.
func TestNothingIsLeasedWhileAChangeIsUnderWay(t *testing.T) {
	both(t, func(t *testing.T, s *settling, change func() (int64, error), after bool) {
		s.lead()
		held := s.below.hold(ofChange, after)
		done := make(chan int64)
		go func() {
			took, err := change()
			assert.NoError(t, err)
			done <- took
		}()
		synctest.Wait()
		require.Nil(t, s.below.next.Load(), "premise: the call is under way")
		before := s.used
		for range 20 {
			assert.Equal(t, core.FromStore, s.allow(), "nothing is leased meanwhile")
		}
		close(held.release)
		if took := <-done; took > 0 {
			s.used += took
		} else if s.used -= before; !after {
			s.used = 0
		}
		assert.Equal(t, settlingCapacity-s.used, s.left(), "no lease holds tokens")
		leased := false
		for range 20 {
			leased = s.allow() == core.FromLease || leased
		}
		assert.True(t, leased, "then the key leases again")
		s.idle()
	})
}

// The tokens that were used of a lease can come back before the call is
// executed that settles the lease.
func TestTokensOfALeaseComeBackWhileItIsSettled(t *testing.T) {
	settles := map[string]func(s *settling){
		"by a Peek":    func(s *settling) { _, _ = s.l.Peek(s.Context(), "k") },
		"by a Debit":   func(s *settling) { _ = s.l.Debit(s.Context(), "k", 1); s.used++ },
		"by a renewal": func(s *settling) { _, _ = s.l.AllowN(s.Context(), "k", 64); s.used += 64 },
		"when idle":    func(*settling) { time.Sleep(200 * time.Millisecond) },
	}
	for name, settle := range settles {
		for _, after := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", before it is executed", true: ", before it is answered"}[after], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSettling(t)
					s.lead()
					held, done := s.below.hold(ofEnding, after), make(chan bool)
					go func() { settle(s); close(done) }()
					time.Sleep(300 * time.Millisecond)
					synctest.Wait()
					require.Nil(t, s.below.next.Load(), "premise: a call that settles the lease is under way")
					if name == "by a Peek" { // the next lease must not come before the last one is settled
						s.allow()
					}
					require.NoError(t, s.l.Refund(t.Context(), "k", 40))
					close(held.release)
					<-done
					s.used -= 40
					s.idle()
				})
			})
		}
	}
}

// A call that settles a lease may fail. Then another one settles it.
func TestLeaseIsSettledAgainIfTheCallFails(t *testing.T) {
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSettling(t)
				s.lead()
				failing := &failingOnce{Store: s.leases.Next}
				s.leases.Next = failing
				_, err := change(s)
				require.ErrorIs(t, err, core.ErrUnavailable)
				require.True(t, failing.failed)
				synctest.Wait()
				assert.Equal(t, settlingCapacity-s.used, s.left(), "the lease is settled all the same")
				assert.Equal(t, core.FromStore, s.allow(), "nothing is admitted from it")
				s.idle()
			})
		})
	}
}

// apart answers requests together with an error of one of them. A store may
// execute none of them then.
type apart struct{ *gated }

func (s apart) DoTogether(_ context.Context, requests []store.Request) ([]store.JointAnswer, error) {
	answers := make([]store.JointAnswer, len(requests))
	answers[1].Err = &store.StateError{Reason: "is not a rate limit state"}
	return answers, nil
}

func TestLeaseIsSettledAgainIfAJointDecisionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSettling(t)
		s.leases = lease.New(apart{s.below}, 64, time.Minute)
		policy := s.l.Policy()
		policy.OnFailure = core.FailClosed
		s.l = core.Must(core.NewLimiter(s.leases, policy))
		s.lead()
		_, err := core.AllowTogether(t.Context(), core.Charge{Limiter: s.l, Key: "k"}, core.Charge{Limiter: s.l, Key: "other"})
		require.ErrorIs(t, err, core.ErrUnavailable)
		synctest.Wait()
		assert.Equal(t, settlingCapacity-s.used, s.left(), "the lease is settled all the same")
	})
}

// failingOnce fails the next call.
type failingOnce struct {
	store.Store

	failed bool
}

func (s *failingOnce) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if !s.failed {
		s.failed = true
		return store.Answer{}, context.DeadlineExceeded
	}
	return s.Store.Do(ctx, r)
}

func (s *failingOnce) Reset(ctx context.Context, policy, key string) error {
	if !s.failed {
		s.failed = true
		return context.DeadlineExceeded
	}
	return s.Store.Reset(ctx, policy, key)
}

func TestGiveBackWaitsForALeaseUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSettling(t)
		s.lead()
		renewal, done := s.below.hold(ofLease, true), make(chan bool)
		go func() {
			_, err := s.l.AllowN(t.Context(), "k", 64)
			assert.NoError(t, err)
			close(done)
		}()
		s.used += 64
		synctest.Wait()
		time.AfterFunc(time.Millisecond, func() { close(renewal.release) })
		s.leases.GiveBack()
		<-done
		assert.Equal(t, settlingCapacity-s.used, s.left(), "all tokens are there when GiveBack returns")
	})
}
