package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/redistest"
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
	twice       int64         // tokens granted twice; below 0: tokens that nobody got
	least, most int64         // the same, by the trail
	window      time.Duration // from the last write of the trail that the successor has until the old master grants nothing
	complete    bool          // the successor has every write that the old master confirmed
	failed      int           // decisions that failed
	rate        float64       // tokens that the old master granted in a second
	median      time.Duration // how long it took for a decision
}

// losses drains the buckets and counts. Until one instant the old master alone
// decided; after another it grants nothing.
func (o *takeover) losses(t *testing.T, alone, ended time.Time) (l losses) {
	t.Helper()
	all := o.crew.drain(t)
	o.trail.end()
	require.Zero(t, left(t, o.crew.plan.limiter(o.to)), "premise: the limits are drained")

	has, err := o.to.Get(context.Background(), o.trail.key).Int()
	require.NoError(t, err)
	marks := o.trail.marks // nobody writes it any more
	lacks := slices.IndexFunc(marks[has+1:], func(m mark) bool { return !m.answered.IsZero() && !m.refused })
	l.window, l.complete = ended.Sub(marks[has].sent), lacks < 0

	l.twice = all.Drained - crewKeys*crewCapacity
	last := o.since
	var took []time.Duration
	for _, d := range all.Decisions {
		sent, answered := time.Unix(0, d.Sent), time.Unix(0, d.Answered)
		if d.Failed {
			l.failed++
			l.least-- // the successor may have charged it, though nobody got its token
		}
		if !d.Admitted {
			continue
		}
		l.twice++
		if answered.After(marks[has].sent) && sent.Before(ended) {
			l.most++
		}
		if answered.Before(alone) {
			if sent.After(o.since) {
				took = append(took, answered.Sub(sent))
			}
			if answered.After(last) {
				last = answered
			}
			if lacks >= 0 && sent.After(marks[has+1+lacks].answered) {
				l.least++
			}
		}
	}
	require.NotEmpty(t, took, "premise: decisions are made before")
	slices.Sort(took)
	l.median = took[len(took)/2]
	l.rate = float64(len(took)) / last.Sub(o.since).Seconds()
	t.Logf("%+v", l)
	assert.LessOrEqual(t, l.twice, l.most, "what is granted twice is what the successor lacks")
	assert.GreaterOrEqual(t, l.twice, l.least, "what the successor lacks is granted twice")
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
