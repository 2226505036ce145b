package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

const (
	steadyRate = 2000                   // decisions a second of the other client
	slice      = 300 * time.Millisecond // for which the command runs, or rests
	warmUp     = slice / 6              // at the begin of a slice, which is not counted

	// mostRatio is what fails: docs/operations.md has up to 2.5, and a machine
	// on which others work too needs room.
	mostRatio = 4
)

// A command that works through many keys hardly changes the answer times of
// others. In turn, it runs and rests for a slice of time, so what else the
// machine does is in both, and what counts is the median of the ratios of a
// slice to the next one.
//
//	SOAK=1 go test -v -run TestOthersKeepTheirAnswerTimes .
//
// prints the figures of docs/operations.md. RATELIMIT=FILE measures another
// build of the command.
func TestOthersKeepTheirAnswerTimes(t *testing.T) {
	soak.Only(t, TestListingsUseScan)
	all, few := loaded(t, 1_000_000), loaded(t, 100_000)
	target := redistest.Start(t)
	files(t, map[string]string{"p.yaml": "- {name: api, limits: [60/min name minute, 1000/day name daily]}\n"})
	on := func(s *redistest.Server, args ...string) []string {
		_, port, _ := strings.Cut(s.Addr, ":")
		return append(args, "-p", port, "-timeout", "5s", "-policies", "p.yaml")
	}
	for _, c := range []struct {
		name   string
		server *redistest.Server
		line   []string
	}{
		{"list", all, on(all, "list", "api")},
		{"find", all, on(all, "find", "no-such-customer")},
		{"credit -all", few, on(few, "credit", "api", "-all", "daily", "1", "-yes")}, // it lists them all first
		{"doctor", all, on(all, "doctor")},
		{"copy", all, []string{"copy", "-replace", "-timeout", "5s", "redis://" + all.Addr, "redis://" + target.Addr}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOther(t, c.server)
			before := bucketOf(t, c.server)
			p := start(t, c.line)
			for c.name == "credit -all" && bucketOf(t, c.server) == before {
				time.Sleep(time.Millisecond)
			}
			var with, without, ratios []float64
			for range 40 {
				require.NoError(t, p.Process.Signal(syscall.SIGCONT))
				a := o.p99(t)
				if p.Process.Signal(syscall.SIGSTOP) != nil {
					break // it has ended
				}
				b := o.p99(t)
				with, without, ratios = append(with, a), append(without, b), append(ratios, a/b)
			}
			require.NotEmpty(t, ratios, "the premise: the command runs for long enough")
			t.Logf("%-11s p99 of others %4.0f µs, and %4.0f µs while it rests: × %.2f (medians of %d pairs)", c.name, median(with), median(without), median(ratios), len(ratios))
			require.Less(t, median(ratios), float64(mostRatio))
		})
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// start runs a command until the test ends.
func start(t *testing.T, line []string) *exec.Cmd {
	t.Helper()
	binary := os.Getenv("RATELIMIT")
	if binary == "" {
		binary = os.Args[0]
	}
	c := exec.CommandContext(t.Context(), binary, line...)
	c.Env = append(os.Environ(), "BE_RATELIMIT=1")
	require.NoError(t, c.Start())
	go func() { _ = c.Wait() }()
	t.Cleanup(func() { _ = c.Process.Kill() })
	return c
}

// loaded starts a server with buckets of the policy api.
func loaded(t *testing.T, n int) *redistest.Server {
	t.Helper()
	server := redistest.Start(t)
	client := server.Client(t)
	store := redisstore.New(client, redisstore.WithTimeout(time.Minute))
	l := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60).WithName("minute"), core.PerDay(1000).WithName("daily")}, OnFailure: core.FailClosed}))
	_, err := l.AllowN(t.Context(), "sample", 30)
	require.NoError(t, err)
	const fill = `local v = redis.call('get', KEYS[1]) for i = ARGV[1], ARGV[2] do redis.call('set', KEYS[1] .. i, v, 'px', 86400000) end return 1`
	for i := 0; i < n; i += 10_000 {
		require.NoError(t, client.Eval(t.Context(), fill, []string{"ratelimit:api:sample"}, i, i+9999).Err())
	}
	return server
}

// bucketOf is what a server has of the first client.
func bucketOf(t *testing.T, s *redistest.Server) string {
	t.Helper()
	client := s.Client(t)
	defer func() { _ = client.Close() }()
	state, err := client.Get(t.Context(), "ratelimit:api:sample").Result()
	require.NoError(t, err)
	return state
}

// other is a client that decides at a steady rate.
type other struct {
	client  *redis.Client
	limiter *core.Limiter
}

func newOther(t *testing.T, s *redistest.Server) *other {
	t.Helper()
	client := s.Client(t)
	store := redisstore.New(client, redisstore.WithTimeout(5*time.Second), redisstore.WithDenyCache(0))
	return &other{client, core.Must(core.NewLimiter(store, core.Policy{Name: "other", Limits: []core.Limit{core.PerMinute(1_000_000)}, OnFailure: core.FailClosed}))}
}

// p99 is the 99th percentile of the answer times of a slice, in µs. No decision
// waits for another.
func (o *other) p99(t *testing.T) float64 {
	t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	began := time.Now()
	for i := 0; ; i++ {
		due := began.Add(time.Duration(i) * time.Second / steadyRate)
		if due.Sub(began) > slice {
			break
		}
		time.Sleep(time.Until(due))
		sent := time.Now() // a timer that is late is not the server's
		all.Go(func() {
			_, err := o.limiter.Allow(t.Context(), fmt.Sprint("user:", i%1000))
			d := time.Since(sent)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if sent.Sub(began) > warmUp {
				took = append(took, d)
			}
		})
	}
	all.Wait()
	require.NotEmpty(t, took)
	slices.Sort(took)
	return float64(took[len(took)*99/100].Microseconds())
}
