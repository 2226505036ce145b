package chaos_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/faultproxy"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// stepCallers ask again and again while the latency of Redis changes.
const stepCallers = 20

// seconds are what became of decisions in each second after a step.
type seconds struct{ decided, fallback [3]atomic.Int64 }

func (s *seconds) share(second int) string {
	failed := s.fallback[second].Load()
	return fmt.Sprintf("%.1f %%", 100*float64(failed)/float64(max(1, failed+s.decided[second].Load())))
}

// The latency of a healthy Redis changes under load, between any two of these
// round trips. The last is beyond the timeout.
func TestLatencyThatChanges(t *testing.T) {
	roundTrips := []time.Duration{0, 35 * time.Millisecond, 60 * time.Millisecond, 90 * time.Millisecond, 200 * time.Millisecond}
	for _, from := range roundTrips {
		for _, to := range roundTrips {
			quick := from == 0 && to < 200*time.Millisecond || from == 200*time.Millisecond && to == 0
			if from != to && (*reportFile != "" || quick || soak.On() && (from == 0 || to == 0)) {
				t.Run(fmt.Sprint(from, " to ", to), func(t *testing.T) { stepLatency(t, from, to) })
			}
		}
	}
}

func stepLatency(t *testing.T, from, to time.Duration) {
	t.Helper()
	proxy := faultproxy.New(t, redistest.Start(t).Addr)
	proxy.SetLatency(from)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	store := redisstore.New(client)
	l := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(1_000_000)}}))
	for began := time.Now(); time.Since(began) < 5*time.Second; { // until connections are made, if they can be
		if one := steps(l, time.Now(), 500*time.Millisecond); one.fallback[0].Load() == 0 || from >= timeout && time.Since(began) > time.Second {
			break
		}
	}
	proxy.SetLatency(to)
	seen := steps(l, time.Now(), 3*time.Second)
	reportStep(t, from, to, seen)
	if to >= timeout {
		assert.Positive(t, seen.fallback[2].Load(), "premise: no answer comes in time")
		proxy.SetLatency(0)
	}
	if to == 90*time.Millisecond && *reportFile == "" {
		return // a machine that does other things may take the rest of the timeout
	}
	require.Eventually(t, func() bool {
		one := steps(l, time.Now(), 200*time.Millisecond)
		return one.fallback[0].Load() == 0 && one.decided[0].Load() >= stepCallers
	}, 2*wait, tick, "at a latency below the timeout all decisions must come back")
}

// steps makes decisions for a while, and counts them by the second since a
// step.
func steps(l *core.Limiter, step time.Time, during time.Duration) *seconds {
	var s seconds
	var all sync.WaitGroup
	for _, name := range keyNames(stepCallers) {
		all.Go(func() {
			for {
				now := time.Since(step)
				if now >= during {
					return
				}
				res, err := l.Allow(context.Background(), name)
				if second := now / time.Second; err == nil && res.Source == core.FromStore {
					s.decided[second].Add(1)
				} else {
					s.fallback[second].Add(1)
					time.Sleep(10 * time.Millisecond) // no more fallbacks than answers there could be
				}
			}
		})
	}
	all.Wait()
	return &s
}

// reportStep adds a row to the table of changed latencies.
func reportStep(t *testing.T, from, to time.Duration, s *seconds) {
	t.Helper()
	line := fmt.Sprintf("| %v | %v | %s | %s | %s | %d |\n", from, to, s.share(0), s.share(1), s.share(2), s.decided[2].Load())
	t.Log(line)
	tables.Lock()
	defer tables.Unlock()
	tables.steps = append(tables.steps, line)
}
