package redisstore

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// After a fail-over no call goes to the lost server. Its outage must end all
// the same, and nobody need look at the statistics.
func TestOutageOfALostServerEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logtest.Buffer
		client := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}, HeartbeatFrequency: 24 * time.Hour})
		defer client.Close()
		s := New(client, WithBreaker(1, 500*time.Millisecond), core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		b := &s.batches
		lost := b.nodes.find("a key of the server")
		require.NotSame(t, b.nodes.home, lost, "premise: the server has a node of its own")
		fail := func(n *node) {
			report, err := n.breaker.Enter()
			require.NoError(t, err)
			n.queue.markUsed()
			report(errors.New("away"))
		}
		for i, n := range []*node{lost, b.nodes.home} {
			fail(n)
			began := time.Now()
			for time.Since(began) < 9*time.Second {
				time.Sleep(time.Second)
				require.Equal(t, i, lines.Count("RL713"), "the outage goes on while calls may come")
			}
			time.Sleep(3 * time.Second)
			assert.Equal(t, i+1, lines.Count("RL713"), "nobody has asked the server for ten seconds")
			away := s.Stats().Away
			assert.Less(t, away, time.Duration(i+1)*12*time.Second, "the time away ends too")
			time.Sleep(time.Hour)
			assert.Equal(t, away, s.Stats().Away, "the time away ends too")
			assert.Equal(t, storestats.BreakerClosed, s.Stats().Breaker)
			assert.Equal(t, i+1, lines.Count("RL713"), "once")
		}
	})
}
