package timely

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestClientWithAConnectionReturnsInTime(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: redistest.Addr(t)})
	t.Cleanup(func() { _ = client.Close() })
	c := Of(client, time.Second)
	assert.Nil(t, c.Get(), "a client without a connection has to set one up first")
	require.NoError(t, client.Ping(context.Background()).Err())
	bounded, _ := c.Get().(*redis.Client)
	require.NotNil(t, bounded)
	assert.Equal(t, time.Second, bounded.Options().ReadTimeout)
	assert.Equal(t, time.Second, bounded.Options().WriteTimeout)
	require.NoError(t, bounded.Ping(context.Background()).Err())
	assert.EqualValues(t, 1, client.PoolStats().TotalConns, "both use the same connections")
}

// A hook may take any time. go-redis does not pass it on to a client with other timeouts, so commands would miss it too.
func TestClientWithHooksIsNotWaitedFor(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: redistest.Addr(t)})
			t.Cleanup(func() { _ = client.Close() })
			if when == "before" {
				client.AddHook(noHook{})
			}
			require.NoError(t, client.Ping(context.Background()).Err())
			c := Of(client, time.Second)
			if when == "after" {
				require.NotNil(t, c.Get())
				client.AddHook(noHook{})
			}
			assert.Nil(t, c.Get())
		})
	}
}

// What go-redis does not promise is tried before it is relied on. If this fails, with a new version of go-redis, nothing
// breaks: ordinary clients are slower until hookCounter knows their fields.
func TestHooksCanBeCounted(t *testing.T) {
	assert.True(t, hooksReadable())
}

func TestClientThatMindsDeadlinesReturnsInTime(t *testing.T) {
	one := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"localhost:1"}, ContextTimeoutEnabled: true})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "localhost:1"}, ContextTimeoutEnabled: true})
	for _, client := range []redis.UniversalClient{one, cluster, ring} {
		t.Cleanup(func() { _ = client.Close() })
		assert.Same(t, client, Of(client, time.Second).Get())
	}
	other := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"localhost:1"}})
	t.Cleanup(func() { _ = other.Close() })
	assert.Nil(t, Of(other, time.Second).Get(), "go-redis has no timeouts for a single command of a Cluster")
}
