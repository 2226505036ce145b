package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// onRedis are command lines of all commands that work on buckets.
var onRedis = []string{
	"get -policies p.yaml api user:1", "list -policies p.yaml api", "find user:1", "reset -policies p.yaml api user:1", "credit -policies p.yaml api user:1 daily 3",
	"credit -policies p.yaml api -all daily 3 -yes", "debit -policies p.yaml api user:1 daily 3", "forget user:1",
	"block -policies p.yaml api user:1", "unblock -policies p.yaml api user:1", "override -policies p.yaml api user:1 9/h -for 2h", "exceptions api", "doctor -policies p.yaml",
}

// outcome is what a command did.
type outcome struct {
	out, errs string
	code      int
}

// inTrouble runs all commands. Whatever the trouble is, each ends in time,
// without a stack trace, and says what is wrong if it fails.
func (s *service) inTrouble(t *testing.T, flags ...string) map[string]outcome {
	t.Helper()
	outcomes := make(map[string]outcome)
	for _, line := range onRedis {
		outcomes[line] = s.one(t, line, flags)
	}
	return outcomes
}

func (s *service) one(t *testing.T, line string, flags []string) (o outcome) {
	t.Helper()
	words := strings.Fields(line)
	began := time.Now()
	o.out, o.errs, o.code = s.run(t, words[0], append(words[1:], flags...)...)
	assert.Less(t, time.Since(began), 20*time.Second, "%s ends", line)
	assert.NotContains(t, o.out+o.errs, "goroutine ", "%s: no stack trace", line)
	if o.code == cli.Unavailable || o.code == cli.Misused {
		assert.NotEmpty(t, strings.TrimPrefix(strings.TrimSpace(o.errs), "ratelimit:"), "%s: a failure says why", line)
	}
	return o
}

// A replica can lack keys: "never used" and "0 keys deleted" would be wrong.
func TestReplicasAreNotAsked(t *testing.T) {
	master := redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	s := own(t, "--replicaof", host+" "+port)
	for line, o := range s.inTrouble(t) {
		if strings.HasPrefix(line, "doctor") {
			assert.Equal(t, cli.Found, o.code)
			assert.NotContains(t, o.out, "ACL user", "the trouble is no right")
			continue
		}
		assert.Equal(t, cli.Misused, o.code, line)
		assert.Contains(t, o.errs, "is a replica, which can lack what the master has, and takes no changes: name its master, "+master.Addr, line)
	}
	for _, urls := range [][]string{{"redis://" + s.addr, "redis://" + master.Addr}, {"redis://" + master.Addr, "redis://" + s.addr}} {
		_, errs, code := s.run(t, "copy", urls...)
		assert.Equal(t, cli.Misused, code)
		assert.Contains(t, errs, s.addr+" is a replica", urls)
	}
}

// When memory is full, what needs none works, and what needs some says so.
func TestAFullMemoryIsTold(t *testing.T) {
	s := own(t)
	s.use(t, "user:1", 3)
	other := own(t)
	other.use(t, "user:1", 3)
	require.NoError(t, s.client.(*redis.Client).ConfigSet(t.Context(), "maxmemory", "1").Err())
	o := s.inTrouble(t)
	for _, line := range []string{"get -policies p.yaml api user:1", "list -policies p.yaml api", "find user:1", "reset -policies p.yaml api user:1", "forget user:1"} {
		assert.Equal(t, cli.OK, o[line].code, "%s: %s", line, o[line].errs)
	}
	debit := o["debit -policies p.yaml api user:1 daily 3"]
	assert.Equal(t, cli.Unavailable, debit.code)
	assert.Contains(t, debit.errs, "The server's memory is full")
	assert.Contains(t, o["doctor -policies p.yaml"].out, "until there is memory: raise maxmemory")
	_, errs, code := s.run(t, "copy", "redis://"+other.addr, "redis://"+s.addr)
	assert.Equal(t, cli.Unavailable, code)
	assert.Contains(t, errs, "Redis at "+s.addr, "it is TO that refuses")
	assert.Contains(t, errs, "The server's memory is full")
}

func TestASlowServerIsTold(t *testing.T) {
	s := own(t)
	s.use(t, "user:1", 3)
	require.NoError(t, s.client.(*redis.Client).Do(t.Context(), "client", "pause", 600_000, "all").Err())
	var all sync.WaitGroup
	for _, line := range onRedis {
		all.Go(func() { // each waits for a second
			o := s.one(t, line, []string{"-timeout", "100ms"})
			assert.Equal(t, cli.Unavailable, o.code, line)
			assert.Contains(t, o.errs, "A slow way needs a longer -timeout", line)
		})
	}
	all.Wait()
}

// A listing of a Cluster that lacks a master's keys is none: nobody may believe
// that a customer is forgotten.
func TestAClusterWithALostShardIsTold(t *testing.T) {
	s := startCluster(t, 2, 0)
	s.open(t)
	for i := range 20 {
		s.use(t, fmt.Sprint("user:", i), 3)
	}
	client := s.client.(*redis.ClusterClient)
	var addrs []string
	require.NoError(t, client.ForEachMaster(t.Context(), func(_ context.Context, c *redis.Client) error {
		if c.Options().Addr != s.addr {
			addrs = append(addrs, c.Options().Addr)
			_ = c.ShutdownNoSave(t.Context())
		}
		return nil
	}))
	require.Len(t, addrs, 1)
	lost := 0
	for line, o := range s.inTrouble(t, "-c", "-timeout", "500ms") {
		if o.code == cli.Unavailable {
			lost++
			assert.Contains(t, o.errs, addrs[0], "%s: which server is lost", line)
			assert.Contains(t, o.errs, "CLUSTER NODES", line)
		}
	}
	assert.GreaterOrEqual(t, lost, 5)
}
