package redisstore

import (
	"context"
	"errors"
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

// stuckServer is a client whose calls wait until the test answers them. They
// then allow everything.
type stuckServer struct {
	redistest.Hook

	sent chan sending
}

type sending struct {
	calls  int
	answer chan struct{}
}

func (s *stuckServer) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "ping" {
			return nil
		}
		if _, decides := cmd.(sentOnce); !decides {
			return errors.New("not a decision")
		}
		sent := sending{decisions(cmd), make(chan struct{})}
		s.sent <- sent
		<-sent.answer
		grant(cmd)
		return nil
	}
}

// callBench is a limiter that sends one call at a time, in a synctest bubble.
type callBench struct {
	*testing.T

	server  *stuckServer
	store   *Store
	limiter *core.Limiter
	began   time.Time
}

const connectsWithin = 100 * time.Millisecond

func newCallBench(t *testing.T) *callBench {
	t.Helper()
	b := &callBench{T: t, server: &stuckServer{sent: make(chan sending, 100)}, began: time.Now()}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"}) // an address, so that no name is looked up
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(b.server)
	b.store = New(client, WithTimeout(connectsWithin))
	b.store.batches.nodes.home.queue.maxInFlight = 1
	b.limiter = core.Must(core.NewLimiter(b.store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(10)}, OnFailure: core.FailClosed}))
	return b
}

// reply is the error that a caller got, and when.
type reply struct {
	at  time.Duration
	err error
}

// at waits until an instant.
func (b *callBench) at(at time.Duration) {
	time.Sleep(at - time.Since(b.began))
	synctest.Wait()
}

// asks sends a request at an instant, on a key of its own.
func (b *callBench) asks(at time.Duration) <-chan reply {
	b.at(at)
	done := make(chan reply, 1)
	key := at.String()
	go func() {
		_, err := b.limiter.Allow(context.Background(), key)
		done <- reply{time.Since(b.began), err}
	}()
	synctest.Wait()
	return done
}

// sendsBatch checks that one batch with so many requests is in flight.
func (b *callBench) sendsBatch(calls int) sending {
	b.Helper()
	synctest.Wait()
	select {
	case s := <-b.server.sent:
		require.Equal(b, calls, s.calls, "requests in the call")
		return s
	default:
		require.Fail(b, "no call is in flight")
		return sending{}
	}
}

// completed checks that no batch is in flight.
func (b *callBench) completed(rule string) {
	b.Helper()
	synctest.Wait()
	b.store.batches.nodes.home.queue.mu.Lock()
	defer b.store.batches.nodes.home.queue.mu.Unlock()
	assert.Zero(b, b.store.batches.nodes.home.queue.inFlight, rule)
}

func (b *callBench) granted(caller <-chan reply, at time.Duration, rule string) {
	b.Helper()
	got := <-caller
	require.NoError(b, got.err, rule)
	assert.Equal(b, at, got.at, rule)
}

func (b *callBench) timedOut(caller <-chan reply, at time.Duration, rule string) {
	b.Helper()
	got := <-caller
	require.ErrorIs(b, got.err, context.DeadlineExceeded, rule)
	assert.Equal(b, at, got.at, rule)
}

func (b *callBench) failures(n int, rule string) {
	b.Helper()
	assert.Equal(b, n, b.store.batches.nodes.home.breaker.Failures(), rule)
}

const ms = time.Millisecond

func TestTimeoutOfOneRequestFailsNoOtherInItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newCallBench(t)
		single := b.asks(0)
		stuck := b.sendsBatch(1)
		early, late := b.asks(20*ms), b.asks(60*ms)
		b.timedOut(single, 100*ms, "a decision alone")
		both := b.sendsBatch(2)
		b.timedOut(early, 120*ms, "while the server answers nothing, each request has the store's timeout from its own start")
		next := b.asks(130 * ms)
		b.failures(1, "a call has the timeout from its own start")
		b.at(140 * ms)
		close(both.answer)
		b.granted(late, 140*ms, "another request's timeout must not fail this one")
		third := b.sendsBatch(1)
		b.at(235 * ms)
		close(third.answer)
		b.granted(next, 235*ms, "the server has the timeout from when the call is sent")
		close(stuck.answer)
		b.completed("no call may be left")
	})
}

// While the server answers, the time that a request waits for others is not the
// server's.
func TestWaitForOthersIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newCallBench(t)
		first := b.asks(0)
		number := b.sendsBatch(1)
		second := b.asks(5 * ms)
		b.at(90 * ms)
		close(number.answer)
		b.granted(first, 90*ms, "a slow call")
		number = b.sendsBatch(1)
		third := b.asks(100 * ms)
		b.at(185 * ms)
		close(number.answer)
		b.granted(second, 185*ms, "one that waited for it has the whole timeout from when it is sent")
		stuck := b.sendsBatch(1)
		fourth := b.asks(190 * ms)
		b.timedOut(third, 285*ms, "and no more")
		b.failures(1, "only the server's time counts")
		last := b.sendsBatch(1)
		b.timedOut(fourth, 290*ms, "when the server stops to answer, requests wait for the timeout from their own start")
		close(stuck.answer)
		close(last.answer)
		b.completed("no call may be left")
	})
}

func TestStuckCallIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newCallBench(t)
		single := b.asks(0)
		stuck := []sending{b.sendsBatch(1)}
		early, late := b.asks(10*ms), b.asks(60*ms)
		b.timedOut(single, 100*ms, "alone")
		stuck = append(stuck, b.sendsBatch(2))
		behind := b.asks(105 * ms)
		b.timedOut(early, 110*ms, "the first of two")
		b.timedOut(late, 160*ms, "the second")
		b.failures(1, "the second call has 40 ms left")
		b.at(200 * ms)
		b.failures(2, "then the store abandons it")
		stuck = append(stuck, b.sendsBatch(1))
		b.timedOut(behind, 205*ms, "a request that began while all calls were stuck")
		b.at(300 * ms)
		b.failures(3, "a call counts as one failure")
		b.completed("all calls are abandoned")
		fresh := b.asks(310 * ms)
		works := b.sendsBatch(1)
		close(works.answer)
		b.granted(fresh, 310*ms, "when the server is back")
		for _, s := range stuck {
			close(s.answer)
		}
		b.completed("an abandoned call must not count as in flight")
		b.failures(3, "an abandoned call must not fail again")
	})
}

// brokenShards answers the first command of a pipeline with an error of its
// server. It loses the replies to the rest.
type brokenShards struct{ redistest.Hook }

var errLost = errors.New("read: i/o timeout")

func (brokenShards) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for i, cmd := range cmds {
			cmd.SetErr(errLost)
			if i == 0 {
				cmd.SetErr(serverError("OOM command not allowed"))
			}
		}
		return cmds[0].Err()
	}
}

// If all shards fail, the batch fails, but each call has its own error. One
// server's refusal does not mean that another server executed nothing.
func TestEachCallOfAPipelineHasItsOwnError(t *testing.T) {
	client := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:0"}})
	defer client.Close()
	client.AddHook(brokenShards{})
	s := New(client)
	p := setOf(core.PerDay(10))
	calls := []*call{
		callOf("a", store.NewRequest("api", "a", bucket.Request{Set: p, Action: bucket.Charge, N: -1})),
		callOf("b", store.NewRequest("api", "b", bucket.Request{Set: p, Action: bucket.Charge, N: -1})),
	}
	calls[0].inline, calls[1].inline = true, true
	outcomes, err := s.batches.nodes.home.sendCalls(t.Context(), calls)
	require.Error(t, err, "the batch failed, for the breaker")
	s.batches.nodes.home.finish(calls, outcomes)
	assert.True(t, redis.HasErrorPrefix(calls[0].err, "OOM"), "%v", calls[0].err)
	require.ErrorIs(t, calls[1].err, errLost)
	for key, doubted := range map[string]bool{"a": false, "b": true} {
		err := calls[0].err
		if key == "b" {
			err = calls[1].err
		}
		assert.Equal(t, doubted, !(&failure{"", err}).Certain(), "tokens may still return to %q", key)
	}
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
