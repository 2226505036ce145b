package redisstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// clusterProxy is a client of one address behind which keys live on several
// servers. It refuses scripts of several keys in its own words.
type clusterProxy struct {
	redistest.Hook

	words string
}

func (p clusterProxy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "evalsha" && args[2] != 1 {
			cmd.SetErr(serverError(p.words))
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

func TestProxyOfAClusterGetsACommandForEachKey(t *testing.T) {
	for name, words := range map[string]string{
		"Redis":       "CROSSSLOT Keys in request don't hash to the same slot",
		"Alibaba":     "ERR 'EVALSHA' command keys must in same slot",
		"Alibaba too": "ERR eval/evalsha command keys must in same slot",
	} {
		t.Run(name, func(t *testing.T) {
			client := redistest.Client(t)
			client.AddHook(clusterProxy{words: words})
			s, prefix := New(client), redistest.Prefix()
			p := setOf(core.PerDay(10))
			for range 2 {
				var calls []*call
				for _, key := range []string{"a", "b", "c"} {
					calls = append(calls, callOf(prefix+key, store.NewRequest("api", key, bucket.Request{Set: p, N: 5})))
				}
				outcomes, err := s.batches.server.send(t.Context(), calls, false)
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

// wordy is a hook that puts the command into the errors of scripts, as some do
// for logs. It counts the scripts.
type wordy struct {
	redistest.Hook

	sent int
}

func (h *wordy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if _, script := cmd.(sentOnce); !script {
			return next(ctx, cmd)
		}
		h.sent++
		cmd.SetErr(fmt.Errorf("%v: %w", cmd.Args(), serverError("OOM command not allowed")))
		return cmd.Err()
	}
}

// Clients choose keys, so a key must not change how the store speaks to its
// server.
func TestKeysInErrorsProveNothing(t *testing.T) {
	for _, key := range []string{
		"CROSSSLOT", "command keys must in same slot", "global variable 'struct'", "object(nil) with key 'pack'", "READONLY",
	} {
		client, hook := redistest.Client(t), &wordy{}
		client.AddHook(hook)
		s := New(client)
		p := setOf(core.PerDay(10))
		var calls []*call
		for _, name := range []string{key, key + " too"} {
			calls = append(calls, callOf(redisKey(redistest.Prefix(), "api", name), store.NewRequest("api", name, bucket.Request{Set: p, N: 1})))
		}
		_, err := s.batches.server.send(t.Context(), calls, false)
		require.ErrorContains(t, err, key, "premise: the error shows the command")
		assert.Equal(t, 1, hook.sent, "%s: sent again", key)
		assert.False(t, s.batches.noStruct.Load(), "%s: the stand-in for struct was chosen", key)
		assert.False(t, s.batches.sharded.Load(), "%s: batches were given up", key)
	}
}
