package chaos_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

func TestSuccessorInAClusterGrantsTwiceOnlyWhatItLacks(t *testing.T) {
	if *reportFile == "" {
		soak.Only(t, TestSuccessorBySentinelGrantsTwiceOnlyWhatItLacks)
	}
	beside(t)
	servers, client := cluster(t)
	var nodes []string
	for _, s := range servers {
		nodes = append(nodes, s.Addr)
	}
	// The crew's buckets are in one slot, so on one master.
	const prefix = "{limits}"
	master := masterOf(t, servers, client, prefix)
	replica := replicaOf(t, servers, master)

	o := startTakeover(t, crewPlan{Nodes: nodes, Prefix: prefix + "planned:"}, master, replica)
	alone := time.Now()
	runShown(t, "CLUSTER FAILOVER", map[string]string{"n4 6379": replica.Addr})
	role(t, replica, "master")
	l := o.losses(t, alone, time.Now())
	assert.Zero(t, l.twice, "each token is granted once: none twice, and none is lost")
	assert.True(t, l.complete, "the successor has every write that the old master confirmed")
	assert.Zero(t, l.failed, "the old master passes on what it did not decide")
	reportTakeover("Cluster: `CLUSTER FAILOVER`", l)

	role(t, master, "slave")
	o = startTakeover(t, crewPlan{Nodes: nodes, Prefix: prefix + "killed:"}, replica, master)
	for _, s := range servers { // until now, a machine that paused must not cause a failover
		require.NoError(t, s.Client(t).ConfigSet(context.Background(), "cluster-node-timeout", "1000").Err())
	}
	alone = time.Now()
	replica.Kill()
	reportTakeover("Cluster: a master is killed", o.losses(t, alone, time.Now()))
}

// replicaOf returns master's replica, when all servers know it: the masters
// vote for no server that they take for a master.
func replicaOf(t *testing.T, servers []*redistest.Server, master *redistest.Server) (replica *redistest.Server) {
	t.Helper()
	ctx := context.Background()
	id, err := master.Client(t).ClusterMyID(ctx).Result()
	require.NoError(t, err)
	for _, s := range servers {
		client := s.Client(t)
		require.Eventually(t, func() bool {
			nodes, err := client.ClusterNodes(ctx).Result()
			require.NoError(t, err)
			for line := range strings.Lines(nodes) {
				for _, one := range servers {
					if strings.Contains(line, " "+one.Addr+"@") && strings.Contains(line, "slave "+id+" ") {
						replica = one
						return true
					}
				}
			}
			return false
		}, wait, tick, "%s knows the replica", s.Addr)
	}
	return replica
}

// role waits until a server has a role, and is in step with its master if it
// has one.
func role(t *testing.T, s *redistest.Server, role string) {
	t.Helper()
	client := s.Client(t)
	require.Eventually(t, func() bool {
		info := replication(t, client)
		return info["role"] == role && info["master_link_status"] != "down"
	}, wait, tick, role)
}

func replication(t *testing.T, client *redis.Client) map[string]string {
	t.Helper()
	info, err := client.InfoMap(context.Background(), "replication").Result()
	require.NoError(t, err)
	return info["Replication"]
}
