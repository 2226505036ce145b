package redisstore

import (
	"crypto/tls"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/rtt"
)

func TestAddressSaysHowTheServerIsReachedAndNoPassword(t *testing.T) {
	secret := "secret"
	for want, client := range map[string]redis.UniversalClient{
		"redis://a:6379":                 redis.NewClient(&redis.Options{Addr: "a:6379", Username: secret, Password: secret}),
		"rediss://a:6379":                redis.NewClient(&redis.Options{Addr: "a:6379", TLSConfig: &tls.Config{}, Password: secret}),
		"unix:///run/redis.sock":         redis.NewClient(&redis.Options{Network: "unix", Addr: "/run/redis.sock"}),
		"the master that Sentinel names": redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}}),
		"redis://a:1,b:2":                redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"a:1", "b:2"}, Password: secret}),
		"redis://c:1,d:2":                redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"y": "d:2", "x": "c:1"}}),
	} {
		t.Cleanup(func() { _ = client.Close() })
		assert.Equal(t, want, settingsOfClient(client).address)
	}
	assert.Empty(t, settingsOfClient(struct{ redis.UniversalClient }{}).address)
}

func TestStoreLeavesConnectionsInThePool(t *testing.T) {
	for _, c := range []struct {
		client redis.UniversalClient
		want   int
	}{
		{redis.NewClient(&redis.Options{PoolSize: 1}), 1},
		{redis.NewClient(&redis.Options{PoolSize: 3}), 3},
		{redis.NewClient(&redis.Options{PoolSize: 5}), 4},
		{redis.NewClient(&redis.Options{PoolSize: 20}), 15},
		{redis.NewClusterClient(&redis.ClusterOptions{PoolSize: 12}), 9},
		{redis.NewRing(&redis.RingOptions{PoolSize: 12}), 9},
		{redis.NewRing(&redis.RingOptions{}), 8},
		{struct{ redis.UniversalClient }{}, 8},
	} {
		assert.Equal(t, c.want, rtt.MaxInFlight(settingsOfClient(c.client).poolSize), "%T", c.client)
		if closer, ok := c.client.(io.Closer); ok && c.client != (struct{ redis.UniversalClient }{}) {
			_ = closer.Close()
		}
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{})
	defer cluster.Close()
	assert.GreaterOrEqual(t, rtt.MaxInFlight(settingsOfClient(cluster).poolSize), rtt.MinInFlight, "the default is known")
}
