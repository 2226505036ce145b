package chaos_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// shards is a Cluster of which one shard fails.
type shards struct {
	client  redis.UniversalClient
	ofShard func(redisKey string) string // the shard that has a key
	lost    string                       // the shard that fails
	fail    func()
}

// shardPrefix begins the keys of these tests.
const shardPrefix = "shards:"

// safe returns n keys whose buckets are not on the shard that will fail.
func (s shards) safe(n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := "key-" + strconv.Itoa(i); s.ofShard(redisKeyOf(key)) != s.lost {
			keys = append(keys, key)
		}
	}
	return keys
}

// redisKeyOf is the Redis key of a bucket of these tests.
func redisKeyOf(key string) string { return shardPrefix + "shards:" + key }

// split is a Cluster whose masters serve their slots whatever becomes of the
// others.
func split(t *testing.T) (servers []*redistest.Server, client *redis.ClusterClient) {
	t.Helper()
	servers, client = cluster(t)
	for _, s := range servers {
		require.NoError(t, s.Client(t).ConfigSet(context.Background(), "cluster-require-full-coverage", "no").Err())
	}
	return servers, client
}

// ofCluster are the shards of a Cluster, of which one fails.
func ofCluster(t *testing.T, servers []*redistest.Server, client *redis.ClusterClient, fail func(master, replica *redistest.Server)) shards {
	t.Helper()
	client.ReloadState(context.Background())
	of := func(key string) string {
		node, err := client.MasterForKey(context.Background(), key)
		require.NoError(t, err)
		return node.Options().Addr
	}
	master := masterOf(t, servers, client, redisKeyOf("key-0"))
	replica := replicaOf(t, servers, master)
	return shards{client: client, ofShard: of, lost: master.Addr, fail: func() { fail(master, replica) }}
}
