package redisstore

import (
	"crypto/tls"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
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
	for poolSize, want := range map[int]int{0: 8, 1: 1, 3: 3, 5: 4, 12: 9, 20: 15, 40: 30, 64: many} {
		assert.Equal(t, want, maxInFlight(poolSize), "a pool of %d", poolSize)
	}
}
