package chaos_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/faultproxy"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// distantPair is a master and a replica with a network between them, and a
// proxy through which clients reach the master.
type distantPair struct {
	master, replica *redistest.Server
	link, clients   *faultproxy.Proxy
}

func startDistantPair(t *testing.T) *distantPair {
	t.Helper()
	p := &distantPair{master: redistest.Start(t), replica: redistest.Start(t)}
	p.link, p.clients = faultproxy.New(t, p.master.Addr), faultproxy.New(t, p.master.Addr)
	follow(t, p.replica, p.link.Addr)
	return p
}

// kill drops all that is on its way to the replica, kills the master, and
// promotes the replica.
func (p *distantPair) kill(t *testing.T) (began, ended time.Time) {
	t.Helper()
	began = time.Now()
	p.link.Set(faultproxy.Reset)
	p.master.Kill()
	ended = time.Now()
	require.NoError(t, p.replica.Client(t).ReplicaOf(context.Background(), "NO", "ONE").Err())
	p.clients.Redirect(p.replica.Addr)
	return began, ended
}

// takesOver has the replica take over after link has changed the network between
// them. The window is as long as that says.
func takesOver(t *testing.T, what string, plan crewPlan, lag time.Duration, link func(*distantPair, *takeover)) losses {
	t.Helper()
	beside(t)
	p := startDistantPair(t)
	plan.Addr = p.clients.Addr
	o := startTakeover(t, plan, p.master, p.replica)
	link(p, o)
	began, ended := p.kill(t)
	l := o.losses(t, began, ended)
	assert.GreaterOrEqual(t, l.window, lag, "premise: replication lags")
	reportTakeover(what+"; the master is killed", l)
	return l
}

// lagging has replication lag.
func lagging(t *testing.T, lag time.Duration) func(*distantPair, *takeover) {
	return func(p *distantPair, o *takeover) {
		p.link.SetLatency(lag)
		o.replicated(t)
	}
}

func TestLaggingSuccessorGrantsTwiceOnlyTheLag(t *testing.T) {
	lags := []time.Duration{100 * time.Millisecond}
	if *reportFile != "" {
		lags = []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, time.Second}
	}
	for _, lag := range lags {
		t.Run(fmt.Sprint(lag), func(t *testing.T) {
			takesOver(t, fmt.Sprintf("Replication lags %v", lag), crewPlan{}, lag, lagging(t, lag))
		})
	}
}

// A decision that waits for its replication is never granted again.
func TestConfirmedDecisionsAreGrantedOnce(t *testing.T) {
	const lag = 100 * time.Millisecond
	l := takesOver(t, fmt.Sprintf("Replication lags %v, and each decision waits for it", lag), crewPlan{Confirmed: 5 * lag}, lag, lagging(t, lag))
	assert.LessOrEqual(t, l.twice, int64(0), "nothing is granted twice")
}

func TestSuccessorThatWasCutOffGrantsTwiceWhatWasGrantedSince(t *testing.T) {
	takesOver(t, fmt.Sprintf("The replica is cut off for %v", cut()), crewPlan{}, cut(), func(p *distantPair, _ *takeover) {
		p.link.Set(faultproxy.BlackHole)
		time.Sleep(cut())
	})
}

func TestOperationsPageLinksToTheTestedHook(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	assert.Contains(t, string(page), "](../internal/chaos/successor_confirmed_test.go)")
	hook, err := os.ReadFile("successor_confirmed_test.go")
	require.NoError(t, err)
	assert.Contains(t, string(hook), `"WAIT", 1,`, "the page says that the hook waits for one replica")
	assert.Less(t, strings.Count(string(hook), "\n"), 50, "the page says how long the hook is")
}

// cut is for how long the replica is cut off.
func cut() time.Duration {
	if *reportFile != "" {
		return 5 * time.Second
	}
	return 500 * time.Millisecond
}

// min-replicas-to-write bounds how long a master grants what nobody else has.
func TestMasterWithoutReplicasGrantsNothing(t *testing.T) {
	beside(t)
	p := startDistantPair(t)
	ctx := context.Background()
	master := p.master.Client(t)
	// Redis counts whole seconds since the replica's last report, so a lag of 1
	// is up to 2 s, and looks once a second.
	const maxLag, looks = 2 * time.Second, time.Second
	require.NoError(t, master.ConfigSet(ctx, "min-replicas-to-write", "1").Err())
	require.NoError(t, master.ConfigSet(ctx, "min-replicas-max-lag", "1").Err())
	o := startTakeover(t, crewPlan{Addr: p.clients.Addr}, p.master, p.replica)
	alone := time.Now()
	p.link.Set(faultproxy.BlackHole)
	var refused time.Time
	require.Eventually(t, func() (found bool) {
		refused, found = o.trail.refusedSince(alone)
		return found
	}, wait, tick, "a master whose replica is cut off must refuse writes")
	if master.Eval(ctx, "return redis.call('SET', KEYS[1], '')", []string{"k"}).Err() == nil {
		t.Skip("before Redis 6.2.7 a script writes without replicas, whatever min-replicas-to-write says")
	}
	written := o.trail.written()
	require.Eventually(t, func() bool { // so that it is seen if decisions go on
		return o.trail.written() > written+100 && time.Since(alone) > cut()
	}, wait, tick)
	began, _ := p.kill(t)
	l := o.losses(t, began, refused)
	assert.Less(t, refused.Sub(alone), 2*(maxLag+looks), "the bound of min-replicas-max-lag 1, twice for a busy machine")
	reportTakeover(fmt.Sprintf("The replica is cut off for %v, with `min-replicas-to-write 1` and `min-replicas-max-lag 1`; the master is killed", cut()), l)
}
