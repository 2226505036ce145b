package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// queueUp takes all tokens of a key and makes n reservations.
func queueUp(t *testing.T, l *core.Limiter, key string, n int) (queue []*core.Reservation) {
	t.Helper()
	_, err := l.AllowN(t.Context(), key, 10_000)
	require.NoError(t, err)
	for range n {
		r, err := l.Reserve(t.Context(), key, 1)
		require.NoError(t, err)
		require.True(t, r.OK())
		queue = append(queue, r)
	}
	return queue
}

// holdCosts are the medians of the server's time for a decision on a key with
// so many reservations, by operation.
func holdCosts(t *testing.T, holds []int, rounds int) map[string][]time.Duration {
	t.Helper()
	log := newServerLog(t)
	ctx := context.Background()
	store := New(log.client, WithPrefix(log.prefix), WithTimeout(time.Minute), WithDenyCache(0))
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(60).WithBurst(10_000)}, OnFailure: core.FailClosed}
	l := core.Must(core.NewLimiter(store, policy))
	costs := make(map[string][][]time.Duration)
	queues := make([][]*core.Reservation, len(holds))
	for i, n := range holds {
		queues[i] = queueUp(t, l, fmt.Sprint(n), n)
	}
	for range rounds {
		for i, n := range holds {
			key, queue := fmt.Sprint(n), &queues[i]
			for name, f := range map[string]func() error{
				"Peek":    func() error { _, err := l.Peek(ctx, key); return err },
				"AllowN":  func() error { _, err := l.AllowN(ctx, key, 9_000); return err },
				"Reserve": func() error { r, err := l.Reserve(ctx, key, 1); *queue = append(*queue, r); return err },
				"Cancel": func() error {
					at := rand.IntN(len(*queue))
					r := (*queue)[at]
					*queue = slices.Delete(*queue, at, at+1)
					return r.Cancel(ctx)
				},
			} {
				if name == "Cancel" && len(*queue) == 0 {
					continue
				}
				if costs[name] == nil {
					costs[name] = make([][]time.Duration, len(holds))
				}
				costs[name][i] = append(costs[name][i], log.took(key, f))
			}
		}
	}
	return medians(costs)
}

// medians returns the median of each list.
func medians(all map[string][][]time.Duration) map[string][]time.Duration {
	medians := make(map[string][]time.Duration)
	for name, of := range all {
		for _, list := range of {
			slices.Sort(list)
			medians[name] = append(medians[name], list[len(list)/2])
		}
	}
	return medians
}

// serverLog tells how long the server ran the script.
type serverLog struct {
	t      *testing.T
	client *redis.Client
	prefix string
}

// newServerLog has the server log each command.
func newServerLog(t *testing.T) *serverLog {
	t.Helper()
	client := redistest.Start(t).Client(t) // its own, because other tests would fill the log
	for name, value := range map[string]string{"slowlog-log-slower-than": "0", "slowlog-max-len": "128"} {
		require.NoError(t, client.ConfigSet(t.Context(), name, value).Err())
	}
	return &serverLog{t, client, redistest.Prefix()}
}

// took is how long the server ran the script for a key of the policy "api",
// which f has run.
func (s *serverLog) took(key string, f func() error) time.Duration {
	require.NoError(s.t, f())
	for _, e := range s.client.SlowLogGet(context.Background(), 16).Val() {
		if strings.HasPrefix(strings.ToLower(e.Args[0]), "eval") && slices.Contains(e.Args, s.prefix+"api:"+key) {
			return e.Duration
		}
	}
	s.t.Fatal("premise: the server logs what it ran")
	return 0
}

// TestHoldsCostLittle compares decisions on a key with thousands of holds to
// those on one with ten. -v shows the times of each, of which
// docs/background.md has the ends.
func TestHoldsCostLittle(t *testing.T) {
	holds := []int{1, 10, 100, 1000, 2000}
	costs := holdCosts(t, holds, 40)
	for _, name := range []string{"Peek", "AllowN", "Reserve", "Cancel"} {
		t.Logf("%8s with %v holds: %v", name, holds, costs[name])
		if few, many := costs[name][1], costs[name][4]; many > 12*few {
			t.Errorf("%s takes the server %v with 2,000 holds and %v with 10: a decision must not read each hold", name, many, few)
		}
	}
}

// Waits that end at once share calls, so that the next caller waits as if they
// had never come.
func TestThousandWaitsEndAtOnce(t *testing.T) {
	client := redistest.Client(t)
	// On a busy machine a call may take longer than the default timeout. Its
	// tokens are then held, though its caller got an error.
	store := New(client, WithPrefix(redistest.Prefix()), WithTimeout(time.Minute), WithDenyCache(0))
	l, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1)}, OnFailure: core.FailClosed})
	require.NoError(t, err)
	_, err = l.Allow(t.Context(), "k")
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	const waits = 1000
	ended := make(chan error, waits)
	for range waits {
		go func() { ended <- l.Wait(ctx, "k") }()
	}
	retry := func() time.Duration {
		res, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		return res.RetryAfter
	}
	require.Eventually(t, func() bool { return retry() > waits*time.Hour }, time.Minute, 10*time.Millisecond, "premise: all wait")
	before := store.Stats().Calls
	leave()
	for range waits {
		require.ErrorIs(t, <-ended, context.Canceled)
	}
	require.Eventually(t, func() bool { return retry() <= time.Hour }, time.Minute, 10*time.Millisecond,
		"the next caller waits as if %d waits that ended had never come", waits)
	t.Logf("%d waits ended; the store sent %d calls since, with those that looked", waits, store.Stats().Calls-before)
}
