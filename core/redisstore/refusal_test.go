package redisstore

import (
	"context"
	"fmt"
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

// A client of one address behind which keys live on several servers, which
// refuse scripts of several keys in their own words.
func TestProxyOfAClusterGetsACommandForEachKey(t *testing.T) {
	for name, words := range map[string]string{
		"Redis":       "CROSSSLOT Keys in request don't hash to the same slot",
		"Alibaba":     "ERR 'EVALSHA' command keys must in same slot",
		"Alibaba too": "ERR eval/evalsha command keys must in same slot",
	} {
		t.Run(name, func(t *testing.T) {
			client := redistest.Client(t)
			client.AddHook(Hook{Of: "evalsha", Do: func(cmd redis.Cmder, send func() error) error {
				if cmd.Args()[2] != 1 {
					return serverError(words)
				}
				return send()
			}})
			s, prefix := asOneServer(New(client)), redistest.Prefix()
			p := setOf(core.PerDay(10))
			for range 2 {
				var calls []*call
				for _, key := range []string{"a", "b", "c"} {
					calls = append(calls, callOf(prefix+key, store.NewRequest("api", key, bucket.Request{Set: p, N: 5})))
				}
				outcomes, err := sendAll(s, calls)
				require.NoError(t, err)
				for _, o := range outcomes {
					require.NoError(t, o.err)
					assert.True(t, o.answer.Allowed, "each decided once: 5 and 5 of 10")
				}
			}
			assert.True(t, s.batches.sharded.Load(), "the next batch is not refused first")
		})
	}
}

func TestOnlyRefusalsProveThatNothingWasExecuted(t *testing.T) {
	for text, proves := range map[string]bool{
		"READONLY You can't write against a read only replica.":            true,
		"ERR READONLY you can't write against a read only instance":        true, // of proxies
		"LOADING Redis is loading the dataset in memory":                   true,
		"MASTERDOWN Link with MASTER is down":                              true,
		"CLUSTERDOWN The cluster is down":                                  true,
		"TRYAGAIN Multiple keys request during rehashing of slot":          true,
		"MOVED 173 127.0.0.1:7001":                                         true,
		"ASK 173 127.0.0.1:7001":                                           true,
		"OOM command not allowed when used memory > 'maxmemory'.":          false,
		"NOREPLICAS Not enough good replicas to write.":                    false,
		"ERR value is READONLY":                                            false,
		"UNKILLABLE Sorry the script already executed write commands":      false,
		"MISCONF Redis is configured to save RDB snapshots":                false,
		"NOPERM this user has no permissions to run the 'evalsha' command": false,
	} {
		assert.Equal(t, proves, notExecuted(serverError(text)), text)
	}
}

func TestOnlyALackOfStructIsReadAsOne(t *testing.T) {
	for text, lacks := range map[string]bool{
		// Redis and miniredis, Lua 5.1, Lua 5.4, and Lua in Go without
		// protected globals
		"ERR user_script:25: Script attempted to access nonexistent global variable 'struct' script: ab, on @user_script:25.":           true,
		"ERR Error compiling script (new function): <string>:16: Script attempted to access nonexistent global variable 'struct' stack": true,
		"ERR Error running script: user_script:25: attempt to index global 'struct' (a nil value)":                                      true,
		"ERR user_script:25: attempt to index a nil value (global 'struct')":                                                            true,
		"ERR <string>:25: attempt to index a non-table object(nil) with key 'pack'":                                                     true,
		// These may come after a key was written.
		"ERR user_script:600: bad argument #3 to 'pack' (number expected, got nil)": false,
		"ERR user_script:600: attempt to call upvalue 'pack' (a nil value)":         false,
	} {
		assert.Equal(t, lacks, lacksStruct(serverError(text)), text)
	}
}

// Clients choose keys, so a key must not change how the store speaks to its
// server.
func TestKeysInErrorsProveNothing(t *testing.T) {
	for _, key := range []string{
		"CROSSSLOT", "command keys must in same slot", "global variable 'struct'", "object(nil) with key 'pack'", "READONLY",
	} {
		client, sent := redistest.Client(t), 0
		client.AddHook(Hook{Of: "eval", Do: func(cmd redis.Cmder, _ func() error) error { // some do so for logs
			sent++
			return fmt.Errorf("%v: %w", cmd.Args(), serverError("OOM command not allowed"))
		}})
		s := asOneServer(New(client))
		p := setOf(core.PerDay(10))
		var calls []*call
		for _, name := range []string{key, key + " too"} {
			calls = append(calls, callOf(redisKey(redistest.Prefix(), "api", name), store.NewRequest("api", name, bucket.Request{Set: p, N: 1})))
		}
		err := s.batches.send(calls)
		require.ErrorContains(t, err, key, "premise: the error shows the command")
		assert.Equal(t, 1, sent, "%s: sent again", key)
		assert.False(t, s.batches.noStruct.Load(), "%s: the stand-in for struct was chosen", key)
		assert.False(t, s.batches.sharded.Load(), "%s: batches were given up", key)
	}
}

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
	b := &batchBench{t, client, asOneServer(New(client, WithTimeout(10*time.Second))), setOf(core.PerDay(10))}
	b.answered(b.take("empty", 10), 0)
	require.NoError(t, client.Set(t.Context(), redisKey(b.store.batches.prefix, "api", "spoilt"), "42", 0).Err())
	return b
}

func (b *batchBench) take(key string, n int64) *call {
	return callOf(redisKey(b.store.batches.prefix, "api", key), store.NewRequest("api", key, bucket.Request{Set: b.set, N: n}))
}

func (b *batchBench) send(calls ...*call) ([]outcome, error) {
	return sendAll(b.store, calls)
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

// A script of a user without the right to MGET asks for each key alone.
func TestBatchWithoutTheRightToMGET(t *testing.T) {
	b := newBatchBench(t)
	require.NoError(t, b.client.Do(t.Context(), "acl", "setuser", "default", "-mget").Err())
	for left := int64(9); left > 7; left-- {
		outcomes, err := b.send(b.take("empty", 1), b.take("spoilt", 1), b.take("new", 1))
		require.NoError(t, err)
		b.left(outcomes[0], false, 0)
		require.ErrorAs(t, outcomes[1].err, new(*store.StateError))
		b.left(outcomes[2], true, left)
	}
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

func (h *onScript) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if _, script := cmds[0].(sentOnce); script && h.seen.Add(1) == h.n {
			h.do()
		}
		return next(ctx, cmds)
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

func TestErrorsOfOldServersAreRead(t *testing.T) {
	for _, text := range []string{
		"@user_script: 367: -READONLY You can't write against a read only replica.\r\n",
		"ERR Error running script (call to f_ab): @user_script:210: @user_script: 210: -READONLY You can't write against a read only replica.",
		"ERR Error running script (call to f_ab): @user_script:13: READONLY You can't write against a read only replica.",
	} {
		for _, err := range []error{keyError(text), withoutArguments(serverError(text))} {
			require.EqualError(t, err, "READONLY You can't write against a read only replica.")
			assert.True(t, notExecuted(err), "a replica refused, so the request is sent again")
		}
	}
}
