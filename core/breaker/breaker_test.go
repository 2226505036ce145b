package breaker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/breaker"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/core/storetest"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

func TestConforms(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		return breaker.New(core.NewMemoryStore(core.WithClock(clock)), time.Minute, 5, time.Second)
	})
}

// remote is a store that fails as its test says.
type remote struct {
	*core.MemoryStore

	fail  func(ctx context.Context) error // nil: it answers
	calls atomic.Int64
}

func (s *remote) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if s.calls.Add(1); s.fail != nil {
		if err := s.fail(ctx); err != nil {
			return store.Answer{}, err
		}
	}
	return s.MemoryStore.Do(ctx, r)
}

const pause = 500 * time.Millisecond

var errRefused = errors.New("connection refused")

func refuse(context.Context) error { return errRefused }

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// onRemote runs a test with a limiter whose store opens its breaker after 3
// failures, for the pause, in a synctest bubble.
func onRemote(t *testing.T, test func(t *testing.T, next *remote, s *breaker.Store, allow func() (core.Result, error), logged func() string)) {
	synctest.Test(t, func(t *testing.T) {
		next := &remote{MemoryStore: core.NewMemoryStore()}
		s := breaker.New(next, 100*time.Millisecond, 3, pause)
		var text logtest.Buffer
		s.Config().Logger = slog.New(slog.NewTextHandler(&text, nil))
		l, err := core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(1000)}, OnFailure: core.FailClosed})
		require.NoError(t, err)
		test(t, next, s, func() (core.Result, error) { return l.Allow(t.Context(), "k") }, text.String)
	})
}

func TestBreakerOpensAndClosesAgain(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{"refuses": refuse, "hangs": hang} {
		t.Run(name, func(t *testing.T) {
			onRemote(t, func(t *testing.T, next *remote, s *breaker.Store, allow func() (core.Result, error), logged func() string) {
				next.fail = fail
				for range 3 {
					began := time.Now()
					_, err := allow()
					require.ErrorIs(t, err, core.ErrUnavailable)
					require.NotErrorIs(t, err, core.ErrBreakerOpen)
					assert.LessOrEqual(t, time.Since(began), 100*time.Millisecond, "a call ends with the timeout")
				}
				assert.Equal(t, storestats.BreakerOpen, s.Stats().Breaker)
				_, err := allow()
				require.ErrorIs(t, err, core.ErrBreakerOpen)
				assert.EqualValues(t, 3, next.calls.Load(), "an open breaker asks nothing")
				time.Sleep(pause + 1)
				_, err = allow()
				require.NotErrorIs(t, err, core.ErrBreakerOpen, "one call tries the store again")
				require.Error(t, err)
				_, err = allow()
				require.ErrorIs(t, err, core.ErrBreakerOpen, "and fails, so the breaker stays open")
				next.fail = nil
				time.Sleep(pause + 1)
				for range 20 {
					_, err = allow()
					require.NoError(t, err, "a successful trial closes the breaker")
					time.Sleep(100 * time.Millisecond)
				}
				assert.Equal(t, storestats.BreakerClosed, s.Stats().Breaker)
				assert.EqualValues(t, 1, s.Stats().Opened, "a failed trial belongs to the same outage")
				assert.Equal(t, 1, strings.Count(logged(), "RL712"), "one line for the outage: %s", logged())
				assert.Equal(t, 1, strings.Count(logged(), "RL713"), "one for its end: %s", logged())
				assert.NotContains(t, logged(), "Redis", "the store is not on Redis")
			})
		})
	}
}

func TestErrorsThatSayNothingAboutTheStore(t *testing.T) {
	for name, err := range map[string]error{"state": &store.StateError{Reason: "is not a rate limit state"}, "clock": store.ErrClock} {
		t.Run(name, func(t *testing.T) {
			onRemote(t, func(t *testing.T, next *remote, s *breaker.Store, allow func() (core.Result, error), _ func() string) {
				next.fail = func(context.Context) error { return err }
				for range 10 {
					_, got := allow()
					require.ErrorIs(t, got, err)
				}
				assert.Equal(t, storestats.BreakerClosed, s.Stats().Breaker)
			})
		})
	}
	t.Run("the caller's context", func(t *testing.T) {
		onRemote(t, func(t *testing.T, next *remote, s *breaker.Store, _ func() (core.Result, error), _ func() string) {
			next.fail = hang
			for range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				_, err := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(1)}})).Allow(ctx, "k")
				require.ErrorIs(t, err, context.DeadlineExceeded)
				cancel()
			}
			assert.Equal(t, storestats.BreakerClosed, s.Stats().Breaker)
		})
	})
}

// A trial that panics must be reported, or no other trial would ever be
// admitted.
func TestPanicOfATrialIsAFailure(t *testing.T) {
	onRemote(t, func(t *testing.T, next *remote, s *breaker.Store, allow func() (core.Result, error), _ func() string) {
		next.fail = refuse
		for range 3 {
			_, _ = allow()
		}
		time.Sleep(pause + 1)
		next.fail = func(context.Context) error { panic("nil map") }
		assert.Panics(t, func() { _, _ = allow() })
		assert.Equal(t, storestats.BreakerOpen, s.Stats().Breaker)
		time.Sleep(pause + 1)
		next.fail = nil
		_, err := allow()
		require.NoError(t, err)
	})
}

func TestValuesOutOfRangeAreReported(t *testing.T) {
	_, err := core.NewLimiter(breaker.New(core.NewMemoryStore(), -1, 0, 0), core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(1)}})
	for _, field := range []string{"breaker.New timeout: -1ns must be above 0", "breaker.New failures: 0 must be at least 1", "breaker.New pause: 0s must be above 0"} {
		require.ErrorContains(t, err, field)
	}
}

// away is a store that can be away, and counts what it is asked.
type away struct {
	*core.MemoryStore

	away, executes, panics atomic.Bool // while away, it may execute what it does not answer
	asked                  atomic.Int64
}

func (s *away) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	if s.asked.Add(1); s.panics.Load() {
		panic("nil map")
	}
	away := s.away.Load() // once: it may change meanwhile
	if !away || s.executes.Load() {
		a, err = s.MemoryStore.Do(ctx, r)
	}
	if away {
		return store.Answer{}, errRefused
	}
	return a, err
}

func (s *away) DoTogether(ctx context.Context, requests []store.Request) (list []store.Answer, err error) {
	s.asked.Add(1)
	away := s.away.Load() // once, as in Do
	if !away || s.executes.Load() {
		list, err = s.MemoryStore.DoTogether(ctx, requests)
	}
	if away {
		return nil, errRefused
	}
	return list, err
}

// outageBench is a store with a breaker that opens after 3 failures, and
// limiters that ask it directly.
type outageBench struct {
	*testing.T
	next  *away
	store *breaker.Store
}

// onOutage runs a test in a synctest bubble.
func onOutage(t *testing.T, test func(b *outageBench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		next := &away{MemoryStore: core.NewMemoryStore()}
		test(&outageBench{t, next, breaker.New(next, 100*time.Millisecond, 3, pause)})
	})
}

func (b *outageBench) limiter(name string, limits ...core.Limit) *core.Limiter {
	b.Helper()
	return core.Must(core.NewLimiter(b.store, core.Policy{Name: name, OnFailure: core.FailClosed, Limits: limits}))
}

// open has the store be away, and the breaker open.
func (b *outageBench) open() {
	b.Helper()
	b.next.away.Store(true)
	l := b.limiter("others", core.PerSecond(1000))
	for range 3 {
		_, err := l.Allow(context.Background(), "k")
		require.ErrorIs(b, err, core.ErrUnavailable)
	}
	_, err := l.Allow(context.Background(), "k")
	require.ErrorIs(b, err, core.ErrBreakerOpen, "premise")
}

// back has the store be back, and waits until the next trial is over. Nobody
// asks the store meanwhile.
func (b *outageBench) back() {
	b.next.away.Store(false)
	time.Sleep(2*pause + 1)
	synctest.Wait()
}

// left returns what the bucket of a limiter has left, as next has it.
func (b *outageBench) left(l *core.Limiter) int64 {
	b.Helper()
	direct := core.Must(core.NewLimiter(b.next, l.Policy()))
	res, err := direct.Peek(context.Background(), "k")
	require.NoError(b, err)
	return res.Limits()[0].Remaining
}

// What a caller returns comes back, whether the breaker refuses it or the store
// fails while the breaker is closed. Each rule says what is left of 10 after 4
// were taken and returned.
func TestWhatIsReturnedDuringAnOutageComesBackAfterIt(t *testing.T) {
	ctx := context.Background()
	slots := []core.Limit{core.InFlight(10).WithMaxHold(time.Hour)}
	estimates := []core.Limit{core.PerDay(10).WithUnit("tokens").WithMaxHold(time.Hour)}
	tokens := []core.Limit{core.PerDay(10)}
	units := []core.Limit{core.PerDay(10).WithUnit("tokens")}
	for _, rule := range []struct {
		name   string
		limits []core.Limit
		units  core.Units // what is taken
		give   func(res *core.Result) error
		open   int64 // left if the breaker is open
		failed int64 // left if the store fails, and has not executed it
		lost   int64 // left if the store has executed it, and the answer is lost
	}{
		{"slots that are released", slots, core.Units{core.Requests: 4}, func(r *core.Result) error { return r.Release(ctx) }, 10, 10, 10},
		{"slots that are undone", slots, core.Units{core.Requests: 4}, func(r *core.Result) error { return r.Undo(ctx) }, 10, 10, 10},
		{"estimates that are undone", estimates, core.Units{"tokens": 4}, func(r *core.Result) error { return r.Undo(ctx) }, 10, 10, 10},
		{"estimates that are settled", estimates, core.Units{"tokens": 4}, func(r *core.Result) error { return r.Settle(ctx, core.Units{"tokens": 1}) }, 9, 6, 9},
		{"tokens that are undone", tokens, core.Units{core.Requests: 4}, func(r *core.Result) error { return r.Undo(ctx) }, 10, 6, 10},
		{"units that are settled", units, core.Units{"tokens": 4}, func(r *core.Result) error { return r.Settle(ctx, core.Units{"tokens": 1}) }, 9, 6, 9},
		{"units that cost more", units, core.Units{"tokens": 4}, func(r *core.Result) error { return r.Settle(ctx, core.Units{"tokens": 7}) }, 3, 6, 3},
		{"a joint decision that is released", slots, core.Units{core.Requests: 4}, func(r *core.Result) error {
			joint := core.Result{Parts: []core.Result{*r}}
			return joint.Release(ctx)
		}, 10, 10, 10},
		{"a refund that the caller can repeat", tokens, core.Units{core.Requests: 4}, nil, 6, 6, 10},
	} {
		t.Run(rule.name, func(t *testing.T) {
			for when, want := range map[string]int64{"the breaker is open": rule.open, "the store fails": rule.failed, "the answer is lost": rule.lost} {
				t.Run(when, func(t *testing.T) {
					onOutage(t, func(b *outageBench) {
						l := b.limiter("api", rule.limits...)
						res, err := l.AllowUnits(ctx, "k", rule.units)
						require.NoError(b, err)
						require.True(b, res.Allowed)
						give := rule.give
						if give == nil {
							give = func(*core.Result) error { return l.Refund(ctx, "k", 4) }
						}
						switch when {
						case "the breaker is open":
							b.open()
						case "the answer is lost":
							b.next.executes.Store(true)
						}
						b.next.away.Store(true)
						require.ErrorIs(b, give(&res), core.ErrUnavailable, "the caller learns that the store has not answered")
						b.next.executes.Store(false)
						time.Sleep(10 * pause)
						b.back()
						assert.Equal(b, want, b.left(l), "what is left of 10 tokens, with no call after the outage")
						asked := b.next.asked.Load()
						time.Sleep(time.Minute)
						assert.Equal(b, asked, b.next.asked.Load(), "what is given back is sent no more")
					})
				})
			}
		})
	}
}

func TestReservationCanceledDuringAnOutage(t *testing.T) {
	onOutage(t, func(b *outageBench) {
		l := b.limiter("api", core.PerDay(10))
		res, err := l.AllowN(b.Context(), "k", 10)
		require.True(b, err == nil && res.Allowed)
		r, err := l.Reserve(b.Context(), "k", 5)
		require.True(b, err == nil && r.OK())
		b.open()
		require.ErrorIs(b, r.Cancel(b.Context()), core.ErrUnavailable)
		b.back()
		state, err := l.Peek(b.Context(), "k")
		require.NoError(b, err)
		assert.LessOrEqual(b, state.ResetAfter, 24*time.Hour, "a reservation that was canceled while the store was away holds no tokens")
	})
}

// A call that took slots may have been executed although its caller got an
// error. Nobody else would release them before MaxHold.
func TestSlotsOfALostAnswerComeBack(t *testing.T) {
	onOutage(t, func(b *outageBench) {
		l, other := b.limiter("api", core.InFlight(10).WithMaxHold(time.Hour)), b.limiter("other", core.InFlight(10).WithMaxHold(time.Hour))
		b.next.away.Store(true)
		b.next.executes.Store(true)
		_, err := l.Allow(b.Context(), "k")
		require.ErrorIs(b, err, core.ErrUnavailable)
		_, err = core.AllowTogether(b.Context(), core.Charge{Limiter: l, Key: "k"}, core.Charge{Limiter: other, Key: "k"})
		require.ErrorIs(b, err, core.ErrUnavailable)
		b.next.away.Store(false)
		require.EqualValues(b, 8, b.left(l), "premise: the calls were executed")
		require.EqualValues(b, 9, b.left(other), "premise: the calls were executed")
		b.back()
		assert.EqualValues(b, 10, b.left(l), "a slot that no caller has is free once the store answers")
		assert.EqualValues(b, 10, b.left(other), "a slot that no caller of a joint decision has is free once the store answers")
	})
}

// Under FailLocal, slots go back to where they came from.
func TestSlotsOfTheFallbackStayThere(t *testing.T) {
	onOutage(t, func(b *outageBench) {
		l := core.Must(core.NewLimiter(b.store, core.Policy{Name: "api", Limits: []core.Limit{core.InFlight(2).WithMaxHold(time.Hour)}}))
		allow := func(source core.Source) *core.Result {
			res, err := l.Allow(b.Context(), "k")
			require.NoError(b, err)
			require.True(b, res.Allowed)
			require.Equal(b, source, res.Source)
			return &res
		}
		shared := allow(core.FromStore)
		b.open()
		local, second := allow(core.FromFallback), allow(core.FromFallback)
		require.ErrorIs(b, shared.Release(b.Context()), core.ErrUnavailable)
		require.NoError(b, second.Release(b.Context()))
		b.back()
		assert.EqualValues(b, 2, b.left(l), "both slots of the store are free")
		held := allow(core.FromStore)
		require.NoError(b, local.Release(b.Context()))
		assert.EqualValues(b, 1, b.left(l), "a slot of the fallback frees none in the store")
		b.open()
		allow(core.FromFallback)
		allow(core.FromFallback)
		require.ErrorIs(b, held.Release(b.Context()), core.ErrUnavailable)
	})
}

// A store that stays away is not asked for ever.
func TestReleaseIsKeptUntilMaxHold(t *testing.T) {
	onOutage(t, func(b *outageBench) {
		l := b.limiter("api", core.InFlight(1).WithMaxHold(time.Minute))
		res, err := l.Allow(b.Context(), "k")
		require.True(b, err == nil && res.Allowed)
		b.open()
		require.Error(b, res.Release(b.Context()))
		before := b.next.asked.Load()
		time.Sleep(30 * time.Second)
		assert.LessOrEqual(b, b.next.asked.Load()-before, int64(30*time.Second/pause), "at most one call in a pause tries the store")
		assert.Greater(b, b.next.asked.Load(), before, "something tries the store although nobody asks it")
		time.Sleep(31 * time.Second)
		before = b.next.asked.Load()
		time.Sleep(time.Hour)
		assert.Equal(b, before, b.next.asked.Load(), "after MaxHold the slot is free without the release")
	})
}

// A panic that no caller can recover from must not end the process.
func TestPanicInTheBackgroundIsAFailure(t *testing.T) {
	onOutage(t, func(b *outageBench) {
		l := b.limiter("api", core.InFlight(1).WithMaxHold(time.Minute))
		res, err := l.Allow(b.Context(), "k")
		require.True(b, err == nil && res.Allowed)
		b.open()
		require.Error(b, res.Release(b.Context()))
		b.next.panics.Store(true)
		time.Sleep(5 * pause)
		b.next.panics.Store(false)
		b.back()
		assert.EqualValues(b, 1, b.left(l), "the slot is free")
	})
}
