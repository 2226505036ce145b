package redisstore

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// batchBench is a store whose batches the test composes itself.
type batchBench struct {
	*testing.T

	client *redis.Client
	store  *Store
	set    *bucket.LimitSet
}

func newBatchBench(t *testing.T) *batchBench {
	t.Helper()
	client := redistest.Start(t).Client(t)
	b := &batchBench{t, client, New(client, WithTimeout(10*time.Second)), setOf(core.PerDay(10))}
	b.answered(b.take("empty", 10), 0)
	require.NoError(t, client.Set(t.Context(), redisKey(b.store.batches.prefix, "api", "spoilt"), "42", 0).Err())
	return b
}

func (b *batchBench) take(key string, n int64) *call {
	return callOf(redisKey(b.store.batches.prefix, "api", key), store.NewRequest("api", key, bucket.Request{Set: b.set, N: n}))
}

func (b *batchBench) send(calls ...*call) ([]outcome, error) {
	return b.store.batches.send(b.Context(), calls, false)
}

// answered checks that c alone is allowed and leaves so many tokens.
func (b *batchBench) answered(c *call, tokens int64) {
	b.Helper()
	outcomes, err := b.send(c)
	require.NoError(b, err)
	b.left(outcomes[0], true, tokens)
}

func (b *batchBench) left(o outcome, allowed bool, tokens int64) {
	b.Helper()
	require.NoError(b, o.err)
	assert.Equal(b, allowed, o.answer.Allowed)
	assert.Equal(b, tokens, o.answer.Remaining(b.set, 0))
}

func (b *batchBench) configure(name, value string) {
	b.Helper()
	require.NoError(b, b.client.ConfigSet(b.Context(), name, value).Err())
}

// A server that refuses writes still answers requests that write nothing. In a
// batch only the grants fail, and they take nothing.
func TestRefusedWriteFailsOnlyItsOwnKey(t *testing.T) {
	for _, c := range []struct{ prefix, name, value, well string }{
		{"OOM", "maxmemory", "1", "0"},
		{"NOREPLICAS", "min-replicas-to-write", "1", "0"},
	} {
		t.Run(c.prefix, func(t *testing.T) {
			b := newBatchBench(t)
			b.answered(b.take("known", 1), 9)
			b.configure(c.name, c.value)
			if c.prefix == "NOREPLICAS" && redistest.Major(t, b.client) < 7 {
				t.Skip("scripts are held to min-replicas-to-write since Redis 6.0.20 and 6.2.7")
			}
			outcomes, err := b.send(b.take("new", 1), b.take("empty", 1), b.take("new", 0), b.take("spoilt", 1), b.take("other", 3), b.take("known", 1))
			require.NoError(t, err)
			bad := (*store.StateError)(nil)
			for _, i := range []int{0, 4, 5} {
				require.ErrorContains(t, outcomes[i].err, c.prefix, "a grant must fail if it can't be written")
				require.True(t, redis.HasErrorPrefix(outcomes[i].err, c.prefix), "the error must be the server's reply: %v", outcomes[i].err)
				assert.NotErrorAs(t, outcomes[i].err, &bad, "a refused write is no StateError")
			}
			b.left(outcomes[1], false, 0)
			b.left(outcomes[2], true, 10)
			require.ErrorAs(t, outcomes[3].err, &bad)

			_, err = b.send(b.take("new", 1), b.take("other", 1))
			require.True(t, redis.HasErrorPrefix(err, c.prefix), "if no request can be answered, the call fails: %v", err)
			outcomes, err = b.send(b.take("spoilt", 1), b.take("new", 1))
			require.NoError(t, err)
			require.ErrorAs(t, outcomes[0].err, &bad)
			require.True(t, redis.HasErrorPrefix(outcomes[1].err, c.prefix))

			b.configure(c.name, c.well)
			b.answered(b.take("new", 1), 9)
			b.answered(b.take("other", 1), 9)
			b.answered(b.take("known", 1), 8)
		})
	}
}

// onScript calls a function before the n-th script.
type onScript struct {
	redistest.Hook

	n    int64
	do   func()
	seen atomic.Int64
}

func (h *onScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if _, script := cmd.(sentOnce); script && h.seen.Add(1) == h.n {
			h.do()
		}
		return next(ctx, cmd)
	}
}

// A replica refuses grants, so the store sends them again, and only them, until
// the server is a master.
func TestWriteRefusedByAReplicaIsRetried(t *testing.T) {
	b := newBatchBench(t)
	require.NoError(t, b.client.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	promote := &onScript{n: 3, do: func() { _ = b.client.ReplicaOf(context.Background(), "NO", "ONE").Err() }}
	b.client.AddHook(promote)
	outcomes, err := b.send(b.take("empty", 1), b.take("new", 4), b.take("spoilt", 1), b.take("new", 3))
	require.NoError(t, err)
	b.left(outcomes[0], false, 0)
	b.left(outcomes[1], true, 6)
	require.Error(t, outcomes[2].err)
	b.left(outcomes[3], true, 3)
	assert.Equal(t, int64(3), promote.seen.Load(), "premise: refused twice")
	b.answered(b.take("new", 0), 3)

	require.NoError(t, b.client.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	outcomes, err = b.send(b.take("empty", 1), b.take("new", 1))
	require.NoError(t, err)
	b.left(outcomes[0], false, 0)
	assert.True(t, redis.HasErrorPrefix(outcomes[1].err, "READONLY"), "if the server stays a replica, the grant fails: %v", outcomes[1].err)
	assert.NotErrorAs(t, outcomes[1].err, new(*store.StateError))
}

// Requests that are decided together fail together, whichever of them can't be
// written: so a replica is asked no oftener for them than for a single request.
func TestAReplicaRefusesRequestsTogetherAsOne(t *testing.T) {
	b := newBatchBench(t)
	require.NoError(t, b.client.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	sent := &onScript{}
	b.client.AddHook(sent)
	joint := b.take("one", 1)
	joint.others = []member{b.take("two", 1).member, b.take("three", 1).member}
	for _, calls := range [][]*call{{joint}, {b.take("empty", 1), joint}} {
		sent.seen.Store(0)
		outcomes, err := b.send(calls...)
		if err == nil {
			err = outcomes[len(calls)-1].err
		}
		assert.True(t, redis.HasErrorPrefix(err, "READONLY"), "the error is the server's: %v", err)
		assert.LessOrEqual(t, sent.seen.Load(), int64(maxAttempts+1))
	}
}

// The first request under another definition is stored even if it is denied or
// takes nothing. If the server refuses that, nothing is lost: the answer is
// that of the definition before, which goes on.
func TestRefusedWriteOfAChangedLimitIsNoFailure(t *testing.T) {
	b := newBatchBench(t)
	b.configure("maxmemory", "1")
	b.set = setOf(core.PerDay(8))
	outcomes, err := b.send(b.take("empty", 1))
	require.NoError(t, err)
	b.left(outcomes[0], false, 0)
	wait := time.Duration(outcomes[0].answer.RetryAfter(b.set, 0, 1)) * time.Microsecond
	assert.InDelta(t, (3 * 24 * time.Hour / 10).Minutes(), wait.Minutes(), 2, "10 were used, so 3 must come back, at 10 a day")
	outcomes, err = b.send(b.take("empty", 0))
	require.NoError(t, err)
	b.left(outcomes[0], true, 0)
}
