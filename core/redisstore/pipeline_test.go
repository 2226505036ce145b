package redisstore

import (
	"context"
	"errors"
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
		callOf("a", store.NewRequest("api", "a", bucket.Request{Set: p, Action: bucket.Refund, N: 1})),
		callOf("b", store.NewRequest("api", "b", bucket.Request{Set: p, Action: bucket.Refund, N: 1})),
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
		return store.NewRequest("api", key, bucket.Request{Set: p, Action: bucket.Refund, N: 1})
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
