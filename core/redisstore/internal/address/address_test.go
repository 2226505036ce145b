package address_test

import (
	"crypto/tls"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/address"
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
		assert.Equal(t, want, address.Of(client))
	}
	assert.Empty(t, address.Of(nil))
	assert.Empty(t, address.Of((*redis.Client)(nil)))
	assert.Empty(t, address.Of(struct{ redis.UniversalClient }{}))
}
