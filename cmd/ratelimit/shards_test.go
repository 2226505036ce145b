package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// shards is a service on a Cluster.
type shards struct {
	service

	masters, replicas []*redistest.Server
	nodes             *redis.ClusterClient
}

// startCluster starts a Cluster of masters with the same share of the slots.
// Each of the first ones has a replica.
func startCluster(t *testing.T, masters, replicas int) *shards {
	t.Helper()
	ctx := context.Background()
	s := new(shards)
	for i := range masters + replicas {
		server := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "60000", "--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0")
		c := server.Client(t)
		require.NoError(t, c.Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		if i >= masters {
			s.replicas = append(s.replicas, server)
		} else {
			require.NoError(t, c.ClusterAddSlotsRange(ctx, i*16384/masters, (i+1)*16384/masters-1).Err())
			s.masters = append(s.masters, server)
		}
		host, port, err := net.SplitHostPort(s.masters[0].Addr)
		require.NoError(t, err)
		require.NoError(t, c.ClusterMeet(ctx, host, port).Err())
	}
	all := slices.Concat(s.masters, s.replicas)
	agree := func(says string) {
		require.Eventually(t, func() bool {
			for _, server := range all {
				c := server.Client(t)
				if info := c.ClusterInfo(ctx).Val(); !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_assigned:16384") || !strings.Contains(info, fmt.Sprint("cluster_known_nodes:", len(all), "\r")) ||
					strings.Count(c.ClusterNodes(ctx).Val(), says) != len(s.replicas) && says != "" {
					return false
				}
			}
			return true
		}, 60*time.Second, 20*time.Millisecond, "the nodes know each other")
	}
	agree("")
	for i, server := range s.replicas {
		id := s.masters[i].Client(t).Do(ctx, "cluster", "myid").Val()
		require.NoError(t, server.Client(t).Do(ctx, "cluster", "replicate", id).Err())
	}
	for _, server := range s.replicas {
		require.Eventually(t, func() bool {
			return strings.Contains(server.Client(t).Info(ctx, "replication").Val(), "master_link_status:up")
		}, 60*time.Second, 20*time.Millisecond, "replicas follow")
	}
	agree("slave ")
	s.nodes = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.masters[0].Addr}, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = s.nodes.Close() })
	s.client, s.addr, s.prefix = s.nodes, s.masters[0].Addr, "ratelimit:"
	return s
}

// users uses three tokens of 40 keys, and returns those that are on a server,
// and those that are on others.
func (s *shards) users(t *testing.T, server *redistest.Server) (there, elsewhere []string) {
	t.Helper()
	s.open(t)
	for i := range 40 {
		key := fmt.Sprint("user:", i)
		s.use(t, key, 3)
		if s.masterOf(t, "ratelimit:api:"+key) == server {
			there = append(there, key)
		} else {
			elsewhere = append(elsewhere, key)
		}
	}
	return there, elsewhere
}

// masterOf returns the master that has a key of Redis.
func (s *shards) masterOf(t *testing.T, key string) *redistest.Server {
	t.Helper()
	node, err := s.nodes.MasterForKey(t.Context(), key)
	require.NoError(t, err)
	return s.masters[slices.IndexFunc(s.masters, func(m *redistest.Server) bool { return m.Addr == node.Options().Addr })]
}

// exceptionsKey is the key with the exceptions of the policy api.
const exceptionsKey = "ratelimit:%exceptions:api"

// patience is the -timeout of commands that wait for it.
const patience = "2s"

// failing are the ways of failing that a node has.
var failing = map[string]func(*testing.T, *redistest.Server){
	"hung": func(t *testing.T, m *redistest.Server) { m.Pause(); t.Cleanup(m.Resume) },
	"dead": func(_ *testing.T, m *redistest.Server) { m.Kill() },
	"refusing": func(t *testing.T, m *redistest.Server) {
		require.NoError(t, m.Client(t).ConfigSet(t.Context(), "requirepass", password).Err())
	},
}

// expected is what a command must do: its exit code, and a part of what it
// prints.
type expected struct {
	code      int
	out, errs string
}

// atOnce runs command lines at the same time, since most wait for a node that
// does not answer.
func (s *shards) atOnce(t *testing.T, lines map[string]expected) {
	t.Helper()
	var all sync.WaitGroup
	for line, want := range lines {
		all.Go(func() {
			o := s.one(t, line, []string{"-c", "-timeout", patience})
			assert.Equal(t, want.code, o.code, "%s: %s%s", line, o.out, o.errs)
			assert.Contains(t, o.out, want.out, line)
			assert.Contains(t, o.errs, want.errs, line)
		})
	}
	all.Wait()
}

func TestAMasterThatFailsConcernsItsOwnKeys(t *testing.T) {
	for name, fail := range failing {
		t.Run(name, func(t *testing.T) {
			if name != "hung" {
				soak.Only(t, TestAMasterThatFailsConcernsItsOwnKeys)
			}
			s := startCluster(t, 3, 0)
			lost := s.masters[1]
			if lost == s.masterOf(t, exceptionsKey) {
				lost = s.masters[2]
			}
			there, elsewhere := s.users(t, lost)
			single, whole := redistest.Start(t), redistest.Start(t)
			s.runOK(t, "copy", "-from-c", "redis://"+s.addr, "redis://"+whole.Addr)
			fail(t, lost)
			keys, p := fmt.Sprintf("%d keys", len(elsewhere)), " -policies p.yaml api "
			partly := func(out string) expected { return expected{cli.Unavailable, out, "1 master failed, and "} }
			s.atOnce(t, map[string]expected{
				"get" + p + elsewhere[0]:                     {cli.OK, "2 of 5 tokens left of burst", ""},
				"get" + p + there[0]:                         {cli.Unavailable, "", lost.Addr},
				"exceptions api":                             {cli.OK, "no exceptions", ""},
				"exceptions":                                 partly(""),
				"list" + p:                                   partly("api: " + keys),
				"find " + elsewhere[0]:                       partly("1 key found, of " + strings.TrimSuffix(keys, " keys")),
				"find " + there[0]:                           partly("0 keys found, of " + strings.TrimSuffix(keys, " keys")),
				"forget -dry-run " + elsewhere[0]:            partly("1 key would be deleted"),
				"doctor -policies p.yaml -store-timeout 10s": {cli.Found, keys + ": api " + strings.TrimSuffix(keys, " keys") + ", and those of masters that failed", ""},
				"copy -to-c=false redis://" + s.addr + " redis://" + single.Addr: partly(keys + " copied"),
			})
			s.atOnce(t, map[string]expected{
				"reset" + p + elsewhere[0]:               {cli.OK, "is reset", ""},
				"reset" + p + there[0]:                   {cli.Unavailable, "", lost.Addr},
				"credit" + p + elsewhere[1] + " daily 1": {cli.OK, "daily has 18 of 20 tokens left", ""},
				"credit" + p + there[0] + " daily 1":     {cli.Unavailable, "", lost.Addr},
				"debit" + p + elsewhere[2] + " daily 1":  {cli.OK, "daily has 16 of 20 tokens left", ""},
				"debit" + p + there[0] + " daily 1":      {cli.Unavailable, "", lost.Addr},
				"block" + p + elsewhere[3]:               {cli.OK, "is blocked", ""},
				"override" + p + elsewhere[4] + " x2":    {cli.OK, "has an override", ""},
				"credit" + p + "-all burst 1 -yes":       partly("credited 1 token to limit burst of "),
				"forget " + elsewhere[5]:                 partly("1 key deleted"),
			})
			s.atOnce(t, map[string]expected{
				"unblock" + p + elsewhere[3]:                                               {cli.OK, "the block has ended", ""},
				"override -remove" + p + elsewhere[4]:                                      {cli.OK, "the override has ended", ""},
				"copy -from-c=false -replace redis://" + whole.Addr + " redis://" + s.addr: partly(keys + " copied"),
			})
			if name == "refusing" {
				return
			}
			host, port, err := net.SplitHostPort(lost.Addr)
			require.NoError(t, err)
			s.atOnce(t, map[string]expected{
				"get -h " + host + " -p " + port + p + elsewhere[0]:     {cli.Unavailable, "", "Name another node of the Cluster by -h"},
				"get -h " + lost.Addr + "," + s.addr + p + elsewhere[0]: {cli.OK, "allowed", ""},
				"copy redis://" + lost.Addr + " redis://" + s.addr:      {cli.Unavailable, "", "Name another node of the Cluster in the URL"},
			})
		})
	}
}

// A key whose exceptions can't be read is shown without them, and the warning
// says so.
func TestAMasterThatHasTheExceptionsHangs(t *testing.T) {
	s := startCluster(t, 2, 0)
	lost := s.masterOf(t, exceptionsKey)
	_, elsewhere := s.users(t, lost)
	s.addr = s.masters[slices.IndexFunc(s.masters, func(m *redistest.Server) bool { return m != lost })].Addr
	failing["hung"](t, lost)
	s.atOnce(t, map[string]expected{
		"get -policies p.yaml api " + elsewhere[0]:   {cli.OK, "allowed", "the overrides and blocks of api are not known"},
		"block -policies p.yaml api " + elsewhere[0]: {cli.Unavailable, "", lost.Addr + " does not answer"},
		"exceptions api": {cli.Unavailable, "", lost.Addr + " does not answer"},
	})
}

func TestDoctorNamesEachNodeOfACluster(t *testing.T) {
	s := startCluster(t, 3, 3)
	s.users(t, s.masters[1])
	flags := []string{"-c", "-timeout", patience, "-store-timeout", "10s"}
	o := s.one(t, "doctor -policies p.yaml", flags)
	assert.NotRegexp(t, `(?m)^fault`, o.out, "%s", o.errs)
	for i, m := range s.masters {
		assert.Regexp(t, `ok +node +`+m.Addr+`: master of 5,46\d slots, replica `+s.replicas[i].Addr, o.out)
		assert.Regexp(t, `ok +node +`+s.replicas[i].Addr+`: replica of `+m.Addr, o.out)
	}
	extra := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "60000")
	host, port, err := net.SplitHostPort(s.addr)
	require.NoError(t, err)
	require.NoError(t, extra.Client(t).ClusterMeet(t.Context(), host, port).Err())
	knows := func(says string) {
		require.Eventually(t, func() bool {
			for _, m := range []*redistest.Server{s.masters[0], s.masters[2]} {
				if !strings.Contains(m.Client(t).ClusterNodes(t.Context()).Val(), says) {
					return false
				}
			}
			return true
		}, 60*time.Second, 20*time.Millisecond)
	}
	knows(extra.Addr)
	failing["hung"](t, s.masters[1])
	failing["hung"](t, s.replicas[2])
	failing["dead"](t, s.replicas[0])
	o = s.one(t, "doctor", flags)
	assert.Equal(t, cli.Found, o.code, o.errs)
	replica, port, err := net.SplitHostPort(s.replicas[1].Addr)
	require.NoError(t, err)
	for _, says := range []string{
		"note   node         " + s.masters[0].Addr + ": master of 5,461 slots, and no replica of it answers",
		"fault  node         " + s.masters[1].Addr + " does not answer within " + patience + " (master of 5,461 slots)\n", "redis-cli -h " + replica + " -p " + port + " CLUSTER FAILOVER FORCE",
		"note   node         " + s.replicas[0].Addr + " does not answer: connect: connection refused (replica of " + s.masters[0].Addr,
		"ok     node         " + s.replicas[1].Addr + ": replica of " + s.masters[1].Addr,
		"note   node         " + s.replicas[2].Addr + " does not answer within " + patience + " (replica of " + s.masters[2].Addr,
		"note   node         " + extra.Addr + ": master without slots",
		"version      " + s.masters[0].Addr, "version      " + s.masters[2].Addr, "on 2 masters",
	} {
		assert.Contains(t, o.out, says)
	}
	if !soak.On() {
		return
	}
	require.Equal(t, "OK", s.replicas[1].Client(t).Do(t.Context(), "cluster", "failover", "force").Val())
	require.Eventually(t, func() bool {
		return s.one(t, "list -policies p.yaml api", flags[:3]).code == cli.OK
	}, 60*time.Second, 100*time.Millisecond, "what doctor names helps")
	s.masters[1].Resume()
	require.Eventually(t, func() bool {
		for _, m := range append(slices.Clone(s.masters), s.replicas[1]) { // messages that were on their way may bring it back
			_ = m.Client(t).Do(t.Context(), "cluster", "delslots", 16383).Err()
		}
		o = s.one(t, "doctor", flags)
		return o.code == cli.Found && strings.Contains(o.out, "fault  slots        no master has 1 of 16,384 slots")
	}, 60*time.Second, 100*time.Millisecond, "a slot that no master has is a fault")
}

// watched starts a master, replicas and Sentinels that know them.
func watched(t *testing.T, replicas, sentinels int) (master *redistest.Server, followers, all []*redistest.Server, flags []string) {
	t.Helper()
	master = redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	for range replicas {
		r := redistest.Start(t, "--replicaof", host+" "+port)
		require.Eventually(t, func() bool {
			return strings.Contains(r.Client(t).Info(t.Context(), "replication").Val(), "master_link_status:up")
		}, 60*time.Second, 20*time.Millisecond)
		followers = append(followers, r)
	}
	var addrs []string
	for range sentinels {
		s := redistest.Start(t, "--sentinel")
		c := redis.NewSentinelClient(&redis.Options{Addr: s.Addr})
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.Monitor(t.Context(), "limits", host, port, "2").Err())
		require.NoError(t, c.Set(t.Context(), "limits", "down-after-milliseconds", "60000").Err())
		require.Eventually(t, func() bool { return len(c.Replicas(t.Context(), "limits").Val()) == replicas }, 60*time.Second, 20*time.Millisecond)
		all, addrs = append(all, s), append(addrs, s.Addr)
	}
	return master, followers, all, []string{"-sentinel", strings.Join(addrs, ","), "-master", "limits", "-timeout", patience}
}

func TestSentinelsThatHangDelayNobody(t *testing.T) {
	files(t, map[string]string{"p.yaml": livePolicies})
	master, _, sentinels, flags := watched(t, 0, 3)
	failing["hung"](t, sentinels[0])
	failing["hung"](t, sentinels[1])
	for _, line := range onRedis {
		out, errs, code := run(t, "", append(strings.Fields(line), flags...)...)
		if !strings.HasPrefix(line, "doctor") {
			assert.NotEqual(t, cli.Unavailable, code, "%s: %s%s", line, out, errs)
			continue
		}
		assert.Equal(t, 2, strings.Count(out, "does not answer within "+patience), "%s", out)
		assert.Contains(t, out, sentinels[2].Addr+": the master is "+master.Addr)
		assert.Contains(t, out, "fault  replica      "+master.Addr+" has no replica\n")
	}
	failing["dead"](t, sentinels[2])
	_, errs, code := run(t, "", append(strings.Fields(onRedis[0]), flags...)...)
	assert.Equal(t, cli.Unavailable, code)
	for _, s := range sentinels {
		assert.Contains(t, errs, s.Addr, "each is named")
	}
}

func TestAMasterThatSentinelNamesHangs(t *testing.T) {
	files(t, map[string]string{"p.yaml": livePolicies})
	master, replicas, sentinels, flags := watched(t, 1, 3)
	doctor := func() string {
		out, errs, code := run(t, "", append([]string{"doctor", "-store-timeout", "10s"}, flags...)...)
		require.NotEqual(t, cli.Unavailable, code, errs)
		return out
	}
	assert.NotRegexp(t, `(?m)^fault`, doctor())
	replicas[0].Pause()
	assert.Contains(t, doctor(), "fault  replica      "+master.Addr+" has no replica left, of 1\n")
	replicas[0].Resume()
	// A Sentinel that was cut off names another master.
	other := redistest.Start(t)
	c := redis.NewSentinelClient(&redis.Options{Addr: sentinels[1].Addr})
	defer func() { _ = c.Close() }()
	for _, named := range []*redistest.Server{other, master} {
		host, port, err := net.SplitHostPort(named.Addr)
		require.NoError(t, err)
		require.NoError(t, c.Remove(t.Context(), "limits").Err())
		require.NoError(t, c.Monitor(t.Context(), "limits", host, port, "2").Err())
		out := doctor()
		assert.Contains(t, out, sentinels[1].Addr+": the master is "+named.Addr)
		assert.Equal(t, named == other, strings.Contains(out, "the Sentinels name different masters"))
	}
	failing["hung"](t, master)
	var all sync.WaitGroup
	for _, line := range onRedis {
		all.Go(func() {
			_, errs, code := run(t, "", append(strings.Fields(line), flags...)...)
			if strings.HasPrefix(line, "doctor") {
				assert.Equal(t, cli.Found, code)
				return
			}
			assert.Equal(t, cli.Unavailable, code, line)
			assert.Contains(t, errs, "the master limits at "+master.Addr, "%s names the master", line)
			assert.Contains(t, errs, "no answer within", line)
		})
	}
	all.Wait()
	out := doctor()
	assert.Contains(t, out, "fault  master       "+master.Addr+" fails: no answer within")
	assert.Contains(t, out, "ok     replica      "+replicas[0].Addr)
}
