package chaos_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/faultproxy"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// takeover is a fail-over while a crew makes decisions and a trail is written.
type takeover struct {
	crew  *crew
	trail *trail
	from  *redis.Client // the master at first
	to    *redis.Client // its successor
	since time.Time     // rates are measured from here on
}

// startTakeover starts a crew on the stores of plan, and waits until it uses
// tokens and the successor follows.
func startTakeover(t *testing.T, plan crewPlan, from, to *redistest.Server) *takeover {
	t.Helper()
	o := &takeover{from: from.Client(t), to: reader(t, to)}
	o.trail = leaveTrail(t, from.Addr, plan.Prefix+"trail")
	o.crew = startCrew(t, plan)
	o.replicated(t)
	return o
}

// reader returns a client that may read from a replica in a Cluster too.
func reader(t *testing.T, s *redistest.Server) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr, OnConnect: func(ctx context.Context, conn *redis.Conn) error {
		_ = conn.ReadOnly(ctx).Err() // other servers know no such command
		return nil
	}})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// replicated waits until the successor has something that the master writes
// from now on, and then for more decisions.
func (o *takeover) replicated(t *testing.T) {
	t.Helper()
	written := o.trail.written()
	require.Eventually(t, func() bool {
		n, err := o.to.Get(context.Background(), o.trail.key).Int()
		return err == nil && n >= written
	}, wait, tick, "premise: the successor follows the master")
	o.since = time.Now()
	o.crew.busy(t, o.from, 100)
}

// losses are what a takeover did to limits that were drained.
type losses struct {
	twice    int64         // tokens granted twice; below 0: tokens that nobody got
	window   time.Duration // from the last write of the trail that the successor has until the old master grants nothing
	complete bool          // the successor has every write that the old master confirmed
	failed   int           // decisions that failed
	rate     float64       // tokens that the old master granted in a second
	median   time.Duration // how long it took for a decision
}

// losses drains the buckets and counts. Until one instant the old master alone
// decided; after another it grants nothing.
func (o *takeover) losses(t *testing.T, alone, ended time.Time) (l losses) {
	t.Helper()
	made, drained := o.crew.drain(t)
	o.trail.end()
	require.Zero(t, left(t, o.crew.plan.limiter(o.to)), "premise: the limits are drained")

	has, err := o.to.Get(context.Background(), o.trail.key).Int()
	require.NoError(t, err)
	marks := o.trail.marks // nobody writes it any more
	lacks := slices.IndexFunc(marks[has+1:], func(m mark) bool { return !m.answered.IsZero() && !m.refused })
	l.window, l.complete = ended.Sub(marks[has].sent), lacks < 0

	l.twice = drained - crewKeys*crewCapacity
	last := o.since
	var took []time.Duration
	for _, d := range made {
		if d.failed {
			l.failed++
		}
		if !d.admitted {
			continue
		}
		l.twice++
		if d.answered.Before(alone) {
			if d.sent.After(o.since) {
				took = append(took, d.answered.Sub(d.sent))
			}
			if d.answered.After(last) {
				last = d.answered
			}
		}
	}
	require.NotEmpty(t, took, "premise: decisions are made before")
	slices.Sort(took)
	l.median = took[len(took)/2]
	l.rate = float64(len(took)) / last.Sub(o.since).Seconds()
	t.Logf("%+v", l)
	// The rule of docs/reliability.md: grants a second times the window. A
	// worker can be one decision early and one late.
	rule := crewSize * crewWorkers * (int64(l.window/crewPace) + 3)
	assert.LessOrEqual(t, l.twice, rule, "what is granted twice is what can be granted in the window")
	return l
}

// reportTakeover adds a row to the table of what a fail-over grants twice.
func reportTakeover(what string, l losses) {
	tables.Lock()
	defer tables.Unlock()
	window := fmt.Sprintf("%d ms", l.window.Milliseconds())
	if l.complete {
		window = "none"
	}
	tables.takeovers = append(tables.takeovers, fmt.Sprintf("| %s | %.0f | %.1f ms | %s | %d |\n", what,
		l.rate, l.median.Seconds()*1000, window, max(l.twice, 0)))
}

// beside runs the test beside others, unless it measures for the report.
func beside(t *testing.T) {
	t.Helper()
	if *reportFile == "" {
		t.Parallel()
	}
}

// startWatchedPair starts a master with a replica and Sentinels.
func startWatchedPair(t *testing.T, sentinels int) (master, replica *redistest.Server, addrs []string) {
	t.Helper()
	master, replica = redistest.Start(t), redistest.Start(t)
	follow(t, replica, master.Addr)
	return master, replica, watch(t, master, sentinels)
}

func TestSuccessorBySentinelGrantsTwiceOnlyWhatItLacks(t *testing.T) {
	t.Run("the master is killed", func(t *testing.T) {
		beside(t)
		master, replica, sentinels := startWatchedPair(t, 3)
		o := startTakeover(t, crewPlan{Sentinels: sentinels}, master, replica)
		noticeSoon(t, sentinels)
		alone := time.Now()
		master.Kill()
		reportTakeover("Sentinel: the master is killed", o.losses(t, alone, time.Now()))
	})
	t.Run("SENTINEL FAILOVER", func(t *testing.T) {
		beside(t)
		master, replica, sentinels := startWatchedPair(t, 1)
		o := startTakeover(t, crewPlan{Sentinels: sentinels}, master, replica)
		alone := time.Now()
		require.NoError(t, sentinelClient(t, sentinels[0]).Failover(t.Context(), "limits").Err())
		o.crew.moved(t, o.from, o.to)
		reportTakeover("Sentinel: `SENTINEL FAILOVER`", o.losses(t, alone, time.Now()))
	})
}

// TestPlannedFailoverGrantsNothingTwice runs the commands of docs/operations.md
// while replication lags.
func TestPlannedFailoverGrantsNothingTwice(t *testing.T) {
	beside(t)
	master, replica := redistest.Start(t), redistest.Start(t)
	link := faultproxy.New(t, master.Addr)
	follow(t, replica, link.Addr)
	sentinels := watch(t, master, 1)
	// After this time Sentinel would have the replica follow the master itself,
	// past the proxy.
	require.NoError(t, sentinelClient(t, sentinels[0]).Set(t.Context(), "limits", "failover-timeout", "600000").Err())
	o := startTakeover(t, crewPlan{Sentinels: sentinels}, master, replica)
	if err := o.from.Do(t.Context(), "CLIENT", "PAUSE", "0", "WRITE").Err(); err != nil {
		t.Skip("CLIENT PAUSE … WRITE needs Redis 6.2:", err)
	}
	link.SetLatency(time.Second) // Sentinel promotes sooner than that
	o.replicated(t)
	alone := time.Now()
	runShown(t, "SENTINEL FAILOVER", map[string]string{"r1 6379": master.Addr, "r2 6379": replica.Addr, "s1 26379": sentinels[0]})
	o.crew.moved(t, o.from, o.to)
	l := o.losses(t, alone, time.Now())
	assert.Zero(t, l.twice, "each token is granted once: none twice, and none is lost")
	assert.True(t, l.complete, "the successor has every write that the old master confirmed")
	reportTakeover("Sentinel: writes are paused, then `SENTINEL FAILOVER`, [as shown](operations.md#fail-over)", l)
}

// runShown runs the block of docs/operations.md that has a command and names
// the given servers, with others in their place.
func runShown(t *testing.T, command string, servers map[string]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	for _, block := range strings.Split(string(page), "```sh\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		shows := strings.Contains(block, command)
		for shown, addr := range servers {
			name, port, _ := strings.Cut(shown, " ")
			host, realPort := hostPort(t, addr)
			shows = shows && strings.Contains(block, "-h "+name+" -p "+port)
			block = strings.NewReplacer("-h "+name+" -p "+port, "-h "+host+" -p "+realPort, name+" "+port, host+" "+realPort).Replace(block)
		}
		if !shows {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		out, err := exec.CommandContext(ctx, "sh", "-ec", block).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NotContains(t, string(out), "ERR", "%s", out)
		t.Logf("%s", out)
		return
	}
	t.Fatalf("docs/operations.md shows no %s with %v", command, servers)
}

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
