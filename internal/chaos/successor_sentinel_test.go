package chaos_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/faultproxy"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

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
