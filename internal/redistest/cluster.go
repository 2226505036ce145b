package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cluster starts a Cluster of masters, which serve as many slots each, and then
// of a replica of each master if replicas is set. All nodes know each other when
// it returns. No machine that pauses causes a fail-over.
func Cluster(t testing.TB, masters int, replicas bool, args ...string) (servers []*Server) {
	t.Helper()
	ctx := context.Background()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	nodes := masters
	if replicas {
		nodes *= 2
	}
	var admins []*redis.Client
	for i := range nodes {
		s := Start(t, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "60000"}, args...)...)
		admin := s.Client(t)
		check(admin.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		if i < masters {
			check(admin.ClusterAddSlotsRange(ctx, i*16384/masters, (i+1)*16384/masters-1).Err())
		}
		for _, other := range servers { // so that nobody waits for gossip
			host, port, err := net.SplitHostPort(other.Addr)
			check(err)
			check(admin.ClusterMeet(ctx, host, port).Err())
		}
		servers, admins = append(servers, s), append(admins, admin)
	}
	for i, replica := range admins[masters:] {
		id, err := admins[i].ClusterMyID(ctx).Result()
		check(err)
		until(t, "a replica knows its master", func() bool { return replica.ClusterReplicate(ctx, id).Err() == nil })
		until(t, "a replica has what its master has", func() bool {
			return strings.Contains(replica.Info(ctx, "replication").Val(), "master_link_status:up")
		})
	}
	for _, admin := range admins {
		until(t, "the nodes know each other", func() bool {
			info := admin.ClusterInfo(ctx).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_assigned:16384") &&
				strings.Contains(info, fmt.Sprint("cluster_known_nodes:", nodes, "\r"))
		})
	}
	return servers
}

// until waits until done.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: ", what)
		}
	}
}
