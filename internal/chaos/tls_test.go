package chaos_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// limiterACL holds the rules that docs/operations.md shows for a limiter's
// user.
const limiterACL = "on >secret ~ratelimit:* -@all +@connection +evalsha +eval +get +mget +set +setrange" +
	" +zadd +zrem +zrange +zrangebyscore +zremrangebyscore +zscore +pexpire +del +time +info +hset +hdel +hget +hgetall +hlen +pttl"

func TestStoreWorksWithTLSAndDocumentedACL(t *testing.T) {
	beside(t)
	cert, key, pool := redistest.Certificate(t)
	port, err := redistest.FreePort()
	require.NoError(t, err)
	server := redistest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	ctx := context.Background()
	admin := server.Client(t)
	require.NoError(t, admin.Do(ctx, aclArgs("limiter", limiterACL)...).Err())

	client := redis.NewClient(&redis.Options{
		Addr: net.JoinHostPort("127.0.0.1", port), Username: "limiter", Password: "secret",
		TLSConfig: &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12},
	})
	defer client.Close()
	l := limited(t, client, core.FailClosed, patient)
	for i := range 3 {
		require.NoError(t, admin.ScriptFlush(ctx).Err())
		res, err := l.Allow(ctx, "k")
		require.NoError(t, err, "the rules in docs/operations.md must suffice")
		assert.Equal(t, int64(capacity-1-i), res.Remaining)
	}
	require.NoError(t, l.Refund(ctx, "k", 1))
	require.NoError(t, l.Reset(ctx, "k"))
	rights := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "limiter", Password: "secret"})
	defer rights.Close()
	now := time.Now()
	clock := core.WithClock(func() time.Time { return now })
	slots := limittest.Limiter(t, redisstore.New(rights, patient, clock), "slots", core.InFlight(2).WithMaxHold(time.Minute))
	for _, step := range []time.Duration{0, -10 * time.Second, time.Hour} { // also a clock that is set back, and a hold that ends by itself
		now = now.Add(step)
		res, err := slots.Allow(ctx, "k")
		require.NoError(t, err, "holds need no other right")
		require.NoError(t, res.Hold(ctx))
		_, err = slots.Peek(ctx, "k")
		require.NoError(t, err)
		if step != 0 {
			require.NoError(t, res.Release(ctx))
		}
	}
	_, err = redisstore.New(rights, patient).State(ctx, "slots", "k")
	require.NoError(t, err, "nor does reading the state of a key")
	exceptions := redisstore.New(rights, patient)
	require.NoError(t, exceptions.SetException(ctx, "api", redisstore.Exception{Key: "k", For: time.Hour}), "exceptions need no other right")
	_, err = exceptions.Exceptions(ctx, "api")
	require.NoError(t, err, "nor does reading them")
}

// clusterACL holds the rules that docs/operations.md adds for a Cluster.
const clusterACL = "+cluster|slots +cluster|shards +command"

func TestDocumentedACLSufficesOnACluster(t *testing.T) {
	beside(t)
	server, ctx := oneNode(t), context.Background()
	require.NoError(t, server.Client(t).Do(ctx, aclArgs("limiter", limiterACL+" "+clusterACL)...).Err())
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr}, Username: "limiter", Password: "secret"})
	defer client.Close()
	_, err := limited(t, client, core.FailClosed, patient).Allow(ctx, "k")
	require.NoError(t, err, "the rules in docs/operations.md must suffice")
	require.NoError(t, redisstore.New(client, patient).Ping(ctx), "they must suffice for Ping")
}

func TestOperationsPageShowsTheTestedACL(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	assert.Contains(t, string(page), "ACL SETUSER limiter "+limiterACL+"\n")
	assert.Contains(t, string(page), "`"+clusterACL+"`")
}

func aclArgs(user, rules string) []any {
	args := []any{"ACL", "SETUSER", user}
	for rule := range strings.FieldsSeq(rules) {
		args = append(args, rule)
	}
	return args
}
