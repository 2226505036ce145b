package redisstore

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// oldServer is a client of a server that can't compile the script.
type oldServer struct{ redistest.Hook }

func (oldServer) answer(cmd redis.Cmder) {
	switch cmd.Name() {
	case "evalsha":
		cmd.SetErr(serverError("NOSCRIPT No matching script. Please use EVAL."))
	case "eval":
		cmd.SetErr(serverError("ERR Error compiling script (new function): user_script:7: '=' expected near 'x'"))
	}
}

func (s oldServer) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		s.answer(cmd)
		return cmd.Err()
	}
}

func (s oldServer) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			s.answer(cmd)
		}
		return cmds[0].Err()
	}
}

func TestScriptThatDoesNotCompileIsReported(t *testing.T) {
	one := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"})
	several := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:0"}})
	for name, client := range map[string]redis.UniversalClient{"one server": one, "several": several} {
		t.Run(name, func(t *testing.T) {
			defer client.Close()
			client.AddHook(oldServer{})
			s := New(client)
			p := setOf(core.PerDay(10))
			calls := make([]*call, 2)
			for i := range calls {
				calls[i] = callOf("k", store.NewRequest("api", "k", bucket.Request{Set: p, N: 1}))
			}
			outcomes, err := s.batches.server.send(t.Context(), calls, false)
			require.ErrorIs(t, err, errNoCompile)
			require.ErrorContains(t, err, "user_script:7", "the error must quote the server")
			assert.True(t, (&failure{"", err}).Certain(), "a script that does not compile executes nothing")
			for _, o := range outcomes {
				require.ErrorIs(t, o.err, errNoCompile)
			}
		})
	}
}

// The records of a single key, all that is answered when it is allowed, must
// not be what a reply with errors can be.
func TestErrorsAreNeverAsLongAsRecordsAlone(t *testing.T) {
	b := newBatchBench(t)
	for times := 1; times <= 40; times++ {
		var calls []*call
		for range times {
			calls = append(calls, b.take("spoilt", 1))
		}
		reply, err := b.store.batches.eval(t.Context(), scriptArgs(calls, "", false))
		require.NoError(t, err)
		assert.Equal(t, 8, len(reply.(string))%bucket.LevelSize, "%d times", times)
		outcomes, err := readReply(reply, calls)
		require.NoError(t, err)
		for _, o := range outcomes {
			require.EqualError(t, o.err, "stored state: "+bucket.ErrUnreadable.Error()+" (RL613)")
		}
	}
}
