package chaos_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// Under Sentinel the log names the master that failed, also after another one
// has taken over, and each outage has its end there.
func TestSentinelOutageNamesTheMaster(t *testing.T) {
	master, replica, sentinels := startWatchedPair(t, 1)
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "limits", SentinelAddrs: sentinels, ContextTimeoutEnabled: true, DialerRetries: 1})
	defer client.Close()
	var lines logtest.Buffer
	store := redisstore.New(client, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	l := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1_000_000)}}))
	count := func(code string) int { return lines.Count("code=" + code) }
	until := func(rule string, done func() bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, err := l.Allow(context.Background(), "k")
			require.NoError(t, err)
			return done()
		}, 2*wait, 5*time.Millisecond, rule)
	}
	until("premise: Redis decides", func() bool {
		res, err := l.Allow(context.Background(), "k")
		return err == nil && res.Source == core.FromStore
	})
	last := func(code string) (line string) {
		for each := range strings.Lines(lines.String()) {
			if strings.Contains(each, "code="+code) {
				line = each
			}
		}
		return line
	}
	master.Pause() // it accepts connections, and does not answer
	until("the outage is logged", func() bool { return count("RL712") == 1 })
	assert.Contains(t, last("RL712"), "server=redis://"+master.Addr, "the line names the master that does not answer")
	require.ErrorContains(t, store.Ping(context.Background()), "redis://"+master.Addr, "and so does Ping")
	noticeSoon(t, sentinels)
	until("its end is logged", func() bool { return count("RL713") == 1 })
	assert.Contains(t, last("RL713"), "server=redis://"+replica.Addr, "the line names the server that is the master now")
	replica.Kill()
	until("the next outage is logged", func() bool { return count("RL712") == 2 })
	assert.Contains(t, last("RL712"), "server=redis://"+replica.Addr, "the line names the new master")
	master.Resume()
}
