package docs

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// The page's command must show every key: those that are strings, and those that are hashes while tokens are held.
func TestTheCommandThatShowsStateReadsEveryKey(t *testing.T) {
	page, err := os.ReadFile("operations.md")
	require.NoError(t, err)
	_, script, found := strings.Cut(string(page), `redis-cli EVAL "`)
	require.True(t, found, "the page has the command")
	script, _, found = strings.Cut(script, `" 1 ratelimit:api:ip:192.0.2.1`)
	require.True(t, found, "the command ends with the key")
	script = strings.ReplaceAll(script, `\\`, `\`) // as a shell reads it in double quotes
	client, ctx, prefix := redistest.Client(t), t.Context(), redistest.Prefix()
	now := time.UnixMicro(1_700_000_000_000_000)
	store := redisstore.New(client, redisstore.WithPrefix(prefix), core.WithClock(func() time.Time { return now }), redisstore.WithTimeout(time.Minute))
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(10), core.PerHour(20)}}))
	show := func() []string {
		t.Helper()
		lines, err := client.Eval(ctx, script, []string{prefix + "api:k"}).StringSlice()
		require.NoError(t, err)
		return lines
	}
	assert.Empty(t, show(), "a key that does not exist")
	_, err = limiter.AllowN(ctx, "k", 10)
	require.NoError(t, err)
	assert.Equal(t, []string{"0 tokens at 1700000000000000", "10 tokens at 1700000000000000"}, show(), "a key that is a string")
	for range 2 {
		r, err := limiter.Reserve(ctx, "k", 1)
		require.NoError(t, err)
		require.True(t, r.OK())
	}
	require.Equal(t, "hash", client.Type(ctx, prefix+"api:k").Val(), "the premise: tokens are held")
	held := "2 tokens in 2 holds until 1700000720000000"
	assert.Equal(t, []string{"-2 tokens at 1700000000000000", held, "8 tokens at 1700000000000000", held}, show(), "a key that is a hash")
}
