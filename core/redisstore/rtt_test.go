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

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/rtt"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// remoteServer is a client of a server that is a round trip away and allows
// everything. It executes calls at once, or one after another if turn is set.
type remoteServer struct {
	redistest.Hook

	trip   time.Duration
	work   time.Duration // that each decision takes
	turn   chan struct{} // nil: calls don't wait for each other
	stuck  atomic.Bool   // nothing is answered
	broken atomic.Bool   // no connection can be made

	calls, most atomic.Int64 // script calls in flight, now and at most
}

func (s *remoteServer) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "ping" {
			if time.Sleep(s.trip); s.broken.Load() {
				time.Sleep(time.Hour)
			}
			return nil
		}
		if _, decides := cmd.(sentOnce); !decides {
			return errors.New("not a decision")
		}
		s.most.Store(max(s.most.Load(), s.calls.Add(1)))
		defer s.calls.Add(-1)
		time.Sleep(s.trip)
		if s.turn != nil {
			s.turn <- struct{}{}
			time.Sleep(time.Duration(decisions(cmd)) * s.work)
			<-s.turn
		}
		if s.stuck.Load() {
			time.Sleep(10 * time.Second)
		}
		grant(cmd)
		return nil
	}
}

// store returns a store on s with the default timeout, and a limiter.
func (s *remoteServer) store(t *testing.T, options ...Option) (*Store, *core.Limiter) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", PoolSize: 64})
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(s)
	store := New(client, options...)
	return store, core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(10)}, OnFailure: core.FailClosed}))
}

// crowd sends requests of so many callers at once. It returns how many the
// store answered.
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

// meets sends a few requests, so that the store measures the round trip.
func meets(l *core.Limiter) {
	for range 3 {
		crowd(l, 64)
		synctest.Wait() // until the calls have completed: a single one tells the round trip best
	}
}

func TestRemoteServerIsKeptBusy(t *testing.T) {
	for _, trip := range []time.Duration{20 * ms, 35 * ms, 50 * ms} {
		for _, callers := range []int{64, 512, 4000, 8000} {
			t.Run(trip.String()+" "+strconv.Itoa(callers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					remote := &remoteServer{trip: trip}
					store, l := remote.store(t)
					meets(l)
					for range 3 {
						crowd(l, callers+maxBatch) // for connections: as many as later, and one more
						time.Sleep(time.Second)
					}
					assert.Equal(t, int64(callers), crowd(l, callers), "a remote server must answer all callers")
					assert.Zero(t, store.Stats().Opened, "the breaker must stay closed")
				})
			})
		}
	}
}

func TestBusyNearServerGetsFourCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &remoteServer{trip: 100 * time.Microsecond, work: 10 * time.Microsecond, turn: make(chan struct{}, 1)}
		_, l := remote.store(t)
		meets(l)
		remote.most.Store(0) // until then the round trip was not known
		for range 100 {
			crowd(l, 4000)
		}
		assert.Equal(t, int64(rtt.MinInFlight), remote.most.Load(), "a server nearby gets at most MinInFlight calls at once")
	})
}

// A few decisions at once don't wait for each other where the round trip is
// long beside what they cost the server.
func TestServerAMillisecondAwayGetsMoreCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &remoteServer{trip: ms}
		_, l := remote.store(t)
		meets(l)
		crowd(l, 10)    // for connections
		synctest.Wait() // until the calls that answered them have completed
		remote.most.Store(0)
		crowd(l, 10)
		assert.Greater(t, remote.most.Load(), int64(rtt.MinInFlight), "a call each, but for decisions that come while another one's is made")
		crowd(l, 4000)
		assert.LessOrEqual(t, remote.most.Load(), int64(rtt.EasyInFlight), "calls are bounded")
	})
}

func TestTimeInTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &remoteServer{trip: 20 * ms}
		store, l := remote.store(t, WithBreaker(1, time.Second), WithTimeout(25*ms))
		meets(l)
		store.batches.nodes.home.queue.maxInFlight = 1
		began := time.Now()
		assert.Equal(t, int64(10*maxBatch), crowd(l, 10*maxBatch), "while the server answers, requests wait for others for longer than the timeout")
		assert.Greater(t, time.Since(began), 5*store.batches.timeout, "premise: they do")
		began = time.Now()
		answered := crowd(l, 20*maxBatch)
		assert.Less(t, answered, int64(20*maxBatch), "but for ten timeouts at most")
		assert.Greater(t, answered, int64(10*maxBatch), "others are answered")
		assert.LessOrEqual(t, time.Since(began), (longestWait+2)*store.batches.timeout,
			"and then for the server's answer, looked for once a timeout")
		assert.Equal(t, int64(1), crowd(l, 1), "an unrelated call after them")
		assert.Zero(t, store.Stats().Opened, "waiting for others is no failure of Redis")
	})
}

// A server answers calls in the order of their coming, so each waits for those
// before it. That is no failure of the server.
func TestTimeoutBeginsWithTheServersTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &remoteServer{trip: 100 * time.Microsecond, work: 180 * time.Microsecond, turn: make(chan struct{}, 1)}
		store, l := remote.store(t)
		meets(l)
		began := time.Now()
		assert.Equal(t, int64(900), crowd(l, 900), "the server answers all the time")
		assert.Greater(t, time.Since(began), 3*store.batches.timeout/2, "premise: together the calls take longer than the timeout")
		assert.Zero(t, store.Stats().Opened)
	})
}

// A call whose connection is stuck has its timeout and no more, whatever the
// server answers to others.
func TestOthersAnswersDoNotProlongAStuckCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &remoteServer{trip: ms}
		store, l := remote.store(t)
		meets(l)
		remote.stuck.Store(true)
		var stuck sync.WaitGroup
		stuck.Go(func() {
			began := time.Now()
			assert.Zero(t, crowd(l, 1), "premise: this call is stuck")
			assert.Equal(t, store.batches.timeout, time.Since(began), "calls that were sent later must not prolong its timeout")
		})
		time.Sleep(2 * ms)
		remote.stuck.Store(false)
		for began := time.Now(); time.Since(began) < 3*store.batches.timeout; {
			assert.Equal(t, int64(5), crowd(l, 5), "others are answered")
		}
		stuck.Wait()
		time.Sleep(time.Minute) // until the stuck call has ended
	})
}

// The round trip to a server changes while requests are made. All of them are
// answered, whatever the round trip within the timeout.
func TestChangedRoundTripFailsNoRequest(t *testing.T) {
	trips := []time.Duration{100 * time.Microsecond, 35 * ms, 60 * ms, 90 * ms}
	for _, from := range trips {
		for _, to := range trips {
			if from == to {
				continue
			}
			t.Run(from.String()+" "+to.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					remote := &remoteServer{trip: from}
					store, l := remote.store(t)
					meets(l)
					remote.trip = to
					for began := time.Now(); time.Since(began) < time.Second; {
						assert.Equal(t, int64(20), crowd(l, 20), "%v after the step every request is answered", time.Since(began))
					}
					assert.InDelta(t, to, store.batches.nodes.home.queue.roundTrip.Get(), float64(ms), "within a second the estimate has followed")
					began := time.Now()
					crowd(l, 20)
					assert.LessOrEqual(t, time.Since(began), to+2*rtt.FullBatch, "then no request waits for another's answer")
					assert.Zero(t, store.Stats().Opened)
					time.Sleep(time.Second) // until no timer is left
				})
			})
		}
	}
}

func TestMissingConnectionsOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &remoteServer{trip: 1 * ms}
		remote.broken.Store(true)
		store, l := remote.store(t)
		for range defaults().failures {
			assert.Zero(t, store.Stats().Opened)
			began := time.Now()
			crowd(l, 10)
			assert.Equal(t, store.batches.timeout, time.Since(began), "no request waits longer than the timeout")
		}
		assert.Equal(t, int64(1), store.Stats().Opened, "failures one after another open the breaker")
		time.Sleep(time.Hour + time.Minute) // until the calls in flight have ended
		remote.broken.Store(false)
		crowd(l, 1)
		time.Sleep(time.Second)
		assert.Equal(t, int64(64), crowd(l, 64), "the server is back")
	})
}

func TestCallsThatFailTogetherCountAsOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &remoteServer{trip: 40 * ms}
		store, l := remote.store(t)
		for range 3 {
			crowd(l, 8000)
		}
		assert.Greater(t, remote.most.Load(), int64(defaults().failures), "premise: many are in flight at once")
		remote.stuck.Store(true)
		crowd(l, 2000)
		assert.Zero(t, store.Stats().Opened, "calls that fail together count once")
		for range 2 * defaults().failures { // a call may begin before the failure of the one before is counted
			crowd(l, 1)
		}
		time.Sleep(store.batches.timeout)
		assert.Equal(t, int64(1), store.Stats().Opened, "failures one after another open the breaker")
		time.Sleep(time.Minute)
	})
}
