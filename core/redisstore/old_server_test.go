package redisstore

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/script"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// oldRedis stands before the script: SET of keys that end in "refused" fails,
// with the text that servers before Redis 7 give to scripts.
const oldRedis = `
local server = redis
local redis = { call = server.call, pcall = function(command, key, ...)
  if command == 'SET' and key:match('refused$') then
    return { err = '@user_script: 367: -READONLY You can\'t write against a read only replica.\r\n' }
  end
  return server.pcall(command, key, ...)
end }
`

func TestErrorsOfOldServersAreRead(t *testing.T) {
	client := redistest.Client(t)
	prefix := redistest.Prefix()
	p := setOf(core.PerDay(10))
	var calls []*call
	for _, key := range []string{"written", "refused", "also refused"} {
		calls = append(calls, callOf(prefix+key, store.NewRequest("api", key, bucket.Request{Set: p, N: 1})))
	}
	decide := func(calls []*call) (any, error) {
		cmd := command(t.Context(), eval, oldRedis+script.Ordinary().Text.(string), scriptArgs(calls, "", false))
		err := client.Process(t.Context(), cmd)
		return cmd.Val(), err
	}

	reply, err := decide(calls)
	require.NoError(t, err)
	outcomes, err := readReply(reply, calls)
	require.NoError(t, err)
	require.NoError(t, outcomes[0].err)
	for _, o := range outcomes[1:] {
		require.EqualError(t, o.err, "READONLY You can't write against a read only replica.")
		assert.True(t, notExecuted(o.err), "a replica refused, so the grant is sent again")
	}

	_, err = decide(calls[1:])
	require.True(t, redis.HasErrorPrefix(err, "READONLY"), "if nothing was written, the script fails: %v", err)
	assert.True(t, notExecuted(err))
}
