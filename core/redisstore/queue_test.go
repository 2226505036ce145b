package redisstore

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// remoteServer is a client of a server that is a round trip away and allows
// everything. Its commands end with their contexts. It executes calls at once,
// or one after another if that is work.
type remoteServer struct {
	redistest.Hook

	trip   time.Duration
	work   time.Duration // that each decision takes; 0: calls don't wait for each other
	turn   chan struct{} // else
	stuck  atomic.Bool   // decisions are not answered
	loses  atomic.Int64  // so many script calls are not answered
	broken atomic.Bool   // no connection can be made

	calls, most atomic.Int64 // script calls in flight, now and at most
	sent        atomic.Int64 // script calls
}

func (s *remoteServer) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "ping" {
			return s.wait(ctx, s.trip, s.broken.Load())
		}
		if _, decides := cmd.(sentOnce); !decides {
			return errors.New("not a decision")
		}
		s.sent.Add(1)
		s.most.Store(max(s.most.Load(), s.calls.Add(1)))
		defer s.calls.Add(-1)
		err := s.wait(ctx, s.trip, s.stuck.Load() || s.loses.Add(-1) >= 0)
		if err == nil && s.turn != nil {
			s.turn <- struct{}{}
			err = s.wait(ctx, time.Duration(decisions(cmd))*s.work, false)
			<-s.turn
		}
		if err != nil {
			cmd.SetErr(err)
			return err
		}
		grant(cmd)
		return nil
	}
}

// wait waits for d, or for ever, unless ctx ends.
func (s *remoteServer) wait(ctx context.Context, d time.Duration, forEver bool) error {
	done := time.After(d)
	if forEver {
		done = nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// store returns a store on s with the default timeout, and a limiter.
func (s *remoteServer) store(t *testing.T, options ...Option) (*Store, *core.Limiter) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", PoolSize: 64, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(s)
	store := asOneServer(New(client, options...))
	return store, core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(10)}, OnFailure: core.FailClosed}))
}

// asOneServer has a store not ask whether its server has all keys.
func asOneServer(s *Store) *Store {
	s.batches.placement.asked.Store(true)
	s.batches.placement.known.Store(true)
	return s
}

// crowd sends requests of so many callers at once, each on a key of its own. It
// returns how many the store answered.
func crowd(l *core.Limiter, callers int) (answered int64) {
	var granted atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			if _, err := l.Allow(context.Background(), strconv.Itoa(i)); err == nil {
				granted.Add(1)
			}
		})
	}
	all.Wait()
	return granted.Load()
}

const ms = time.Millisecond

// onRemote runs a test in a synctest bubble.
func onRemote(t *testing.T, remote *remoteServer, test func(t *testing.T, s *Store, l *core.Limiter), options ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if remote.work > 0 {
			remote.turn = make(chan struct{}, 1)
		}
		s, l := remote.store(t, options...)
		test(t, s, l)
		time.Sleep(time.Minute) // until no timer is left
	})
}

func TestRemoteServerAnswersAllCallers(t *testing.T) {
	for _, trip := range []time.Duration{20 * ms, 90 * ms} {
		for _, callers := range []int{64, 512, 8000} {
			t.Run(trip.String()+" "+strconv.Itoa(callers), func(t *testing.T) {
				onRemote(t, &remoteServer{trip: trip}, func(t *testing.T, s *Store, l *core.Limiter) {
					crowd(l, callers) // opens connections
					time.Sleep(time.Second)
					for range 3 {
						assert.Equal(t, int64(callers), crowd(l, callers))
					}
					assert.Zero(t, s.Stats().Opened, "the breaker must stay closed")
				})
			})
		}
	}
}

func TestBusyNearServerGetsFewCallsAtOnce(t *testing.T) {
	remote := &remoteServer{trip: 100 * time.Microsecond, work: 2 * time.Microsecond}
	onRemote(t, remote, func(t *testing.T, _ *Store, l *core.Limiter) {
		for range 30 {
			crowd(l, large)
		}
		assert.Equal(t, int64(few), remote.most.Load())
		for range 30 {
			crowd(l, 4000)
		}
		assert.Greater(t, remote.most.Load(), int64(few), "large batches")
		assert.LessOrEqual(t, remote.most.Load(), int64(2*few), "large batches")
	})
}

func TestCallersBehindFewCallsShareTheNextOne(t *testing.T) {
	remote := &remoteServer{trip: ms}
	onRemote(t, remote, func(t *testing.T, _ *Store, l *core.Limiter) {
		for range few {
			crowd(l, 64) // opens connections
			time.Sleep(time.Second)
		}
		remote.sent.Store(0)
		assert.Equal(t, int64(300), crowd(l, 300))
		assert.Equal(t, int64(few+1), remote.sent.Load(), "few calls at once, and one for all that came meanwhile")
	})
}

func TestInjectedClockHasOneCallInFlight(t *testing.T) {
	remote := &remoteServer{trip: ms}
	onRemote(t, remote, func(t *testing.T, _ *Store, l *core.Limiter) {
		for range 3 {
			crowd(l, 100)
		}
		assert.Equal(t, int64(1), remote.most.Load(), "instants must arrive in their order")
	}, core.WithClock(time.Now))
}

func TestTimeInTheQueueIsBounded(t *testing.T) {
	remote := &remoteServer{trip: 20 * ms}
	onRemote(t, remote, func(t *testing.T, s *Store, l *core.Limiter) {
		crowd(l, 1)
		began := time.Now()
		assert.Equal(t, int64(10*maxBatch), crowd(l, 10*maxBatch), "while the server answers, requests wait for others for longer than the timeout")
		assert.Greater(t, time.Since(began), 5*s.batches.timeout, "premise: they do")
		began = time.Now()
		answered := crowd(l, 20*maxBatch)
		assert.Less(t, answered, int64(20*maxBatch), "but for ten timeouts at most")
		assert.Greater(t, answered, int64(10*maxBatch), "others are answered")
		assert.LessOrEqual(t, time.Since(began), (longestWait+2)*s.batches.timeout)
		assert.Equal(t, int64(1), crowd(l, 1), "an unrelated call after them")
		assert.Zero(t, s.Stats().Opened, "waiting for others is no failure of Redis")
	}, WithBreaker(1, time.Second), WithTimeout(25*ms), core.WithClock(time.Now)) // the clock: one call in flight
}

// The round trip to a server changes while requests are made. All of them are
// answered, whatever the round trip within the timeout.
func TestChangedRoundTripFailsNoRequest(t *testing.T) {
	trips := []time.Duration{100 * time.Microsecond, 35 * ms, 90 * ms}
	for _, from := range trips {
		for _, to := range trips {
			if from == to {
				continue
			}
			t.Run(from.String()+" "+to.String(), func(t *testing.T) {
				remote := &remoteServer{trip: from}
				onRemote(t, remote, func(t *testing.T, s *Store, l *core.Limiter) {
					crowd(l, 64)
					time.Sleep(time.Second)
					remote.trip = to
					for began := time.Now(); time.Since(began) < time.Second; {
						assert.Equal(t, int64(20), crowd(l, 20), "%v after the step every request is answered", time.Since(began))
					}
					assert.Zero(t, s.Stats().Opened)
				})
			})
		}
	}
}

func TestMissingConnectionsOpenTheBreaker(t *testing.T) {
	remote := &remoteServer{trip: ms}
	remote.broken.Store(true)
	onRemote(t, remote, func(t *testing.T, s *Store, l *core.Limiter) {
		for range defaults().failures {
			assert.Zero(t, s.Stats().Opened)
			began := time.Now()
			assert.Zero(t, crowd(l, 10))
			assert.LessOrEqual(t, time.Since(began), s.batches.timeout+s.batches.timeout/silence, "no request waits longer than the timeout")
			time.Sleep(s.batches.timeout)
		}
		assert.Equal(t, int64(1), s.Stats().Opened, "failures one after another open the breaker")
		time.Sleep(10 * time.Second) // until the calls in flight have ended
		remote.broken.Store(false)
		crowd(l, 1)
		assert.Equal(t, int64(64), crowd(l, 64), "the server is back")
	})
}

func TestLostAnswerFailsNoneThatIsQueued(t *testing.T) {
	remote := &remoteServer{trip: ms}
	onRemote(t, remote, func(t *testing.T, s *Store, l *core.Limiter) {
		crowd(l, 1)
		time.Sleep(time.Second)
		remote.loses.Store(1)
		assert.Equal(t, int64(99), crowd(l, 100), "other connections work, so all but the lost one are answered")
		assert.Zero(t, s.Stats().Opened)

		remote.stuck.Store(true)
		remote.broken.Store(true)
		began := time.Now()
		assert.Zero(t, crowd(l, 100))
		assert.LessOrEqual(t, time.Since(began), 2*s.batches.timeout+s.batches.timeout/silence+5*ms,
			"if none works, they wait for the timeout after that of the first")
	}, core.WithClock(time.Now)) // the clock: one call in flight
}

func TestQueuedCallsAreRefusedWhenTheBreakerOpens(t *testing.T) {
	remote := &remoteServer{trip: ms}
	onRemote(t, remote, func(t *testing.T, s *Store, l *core.Limiter) {
		crowd(l, 1)
		time.Sleep(time.Second)
		remote.stuck.Store(true)
		began := time.Now()
		assert.Zero(t, crowd(l, 100))
		assert.LessOrEqual(t, time.Since(began), s.batches.timeout+s.batches.timeout/silence+5*ms, "they wait for no other call")
		assert.Equal(t, int64(1), s.Stats().Opened)
	}, WithBreaker(1, time.Hour), core.WithClock(time.Now)) // the clock: one call in flight
}

// brokenShards answers the command for key "a" with an error of its server. It
// loses the replies to the rest.
type brokenShards struct{ redistest.Hook }

var errLost = errors.New("read: i/o timeout")

func (brokenShards) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.SetErr(errLost)
			if cmd.Args()[3] == "a" {
				cmd.SetErr(serverError("OOM command not allowed"))
			}
		}
		return cmds[0].Err()
	}
}

// sendAll sends calls as one batch.
func sendAll(s *Store, calls []*call) (outcomes []outcome, err error) {
	err = s.batches.send(calls)
	for _, c := range calls {
		outcomes = append(outcomes, c.outcome)
	}
	return outcomes, err
}

// Calls for one key share a count. Those that it denies don't wait for a limit
// that they take nothing of.
func TestDeniedCallsOfACountWaitForWhatTheyTake(t *testing.T) {
	s := New(redistest.Client(t), WithTimeout(10*time.Second))
	set := setOf(core.PerSecond(2), core.PerHour(1))
	set.Rates[1].Other = true
	key := redistest.Prefix()
	request := bucket.Request{Set: set, Each: &[]int64{0, 1}}
	_, err := sendAll(s, []*call{callOf(key, store.NewRequest("api", "k", request))})
	require.NoError(t, err)
	var calls []*call
	for range 3 {
		calls = append(calls, callOf(key, store.NewRequest("api", "k", bucket.Request{Set: set, N: 1})))
	}
	outcomes, err := sendAll(s, calls)
	require.NoError(t, err)
	denied := outcomes[2].answer
	require.False(t, denied.Allowed, "2 of a second are taken")
	assert.Zero(t, denied.RetryAfter(set, 1, 1), "the hour's limit, which has none left, was not asked")
	assert.Positive(t, denied.RetryAfter(set, 0, 1))
}

// If all shards fail, the batch fails, but each call has its own error. One
// server's refusal does not mean that another server executed nothing.
func TestEachCallOfAPipelineHasItsOwnError(t *testing.T) {
	client := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:0"}})
	defer client.Close()
	client.AddHook(brokenShards{})
	s := New(client)
	p := setOf(core.PerDay(10))
	outcomes, err := sendAll(s, []*call{
		callOf("a", store.NewRequest("api", "a", bucket.Request{Set: p, Action: bucket.Charge, N: -1})),
		callOf("b", store.NewRequest("api", "b", bucket.Request{Set: p, Action: bucket.Charge, N: -1})),
	})
	require.Error(t, err, "the batch failed, for the breaker")
	assert.True(t, redis.HasErrorPrefix(outcomes[0].err, "OOM"), "%v", outcomes[0].err)
	require.ErrorIs(t, outcomes[1].err, errLost)
	assert.True(t, (&failure{"", outcomes[0].err}).Certain(), "no tokens may still return to the first key")
	assert.False(t, (&failure{"", outcomes[1].err}).Certain(), "tokens may still return to the second key")
}

// The deny cache must not wait for tokens of a request that nobody has sent.
func TestErrorsOfAnOpenBreakerAreCertain(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	s := New(client, WithBreaker(1, time.Hour))
	p := setOf(core.PerDay(10))
	request := func(key string) store.Request {
		return store.NewRequest("api", key, bucket.Request{Set: p, Action: bucket.Charge, N: -1})
	}
	_, err := s.Do(t.Context(), request("a"))
	require.Error(t, err, "premise: the breaker opens")
	_, single := s.Do(t.Context(), request("a"))
	_, joint := s.DoTogether(t.Context(), []store.Request{request("a"), request("b")})
	for name, err := range map[string]error{"one request": single, "several requests": joint, "a reset": s.Reset(t.Context(), "api", "a")} {
		require.ErrorIs(t, err, core.ErrBreakerOpen, name)
		var f *failure
		require.ErrorAs(t, err, &f, name)
		assert.True(t, f.Certain(), "%s: %v", name, err)
	}
}
