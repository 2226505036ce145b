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
)

const (
	steadyRate = 2000                   // decisions a second of the other client
	slice      = 300 * time.Millisecond // for which the command runs, or rests
	warmUp     = slice / 6              // at the begin of a slice, which is not counted
)

// A command that works through many keys hardly changes the answer times of
// others. In turn, it runs and rests for a slice of time, so what else the
// machine does is in both, and what counts is the median of the ratios of a
// slice to the next one. It is printed in place of a time.
//
//	go test -run '^$' -bench Others -benchtime 40x .
//
// prints the figures of docs/operations.md, 40 pairs each. RATELIMIT=FILE
// measures another build of the command.
func BenchmarkOthers(b *testing.B) {
	all, few := loaded(b, 1_000_000), loaded(b, 100_000)
	target := redistest.Start(b)
	files(b, map[string]string{"p.yaml": "- {name: api, limits: [60/min name minute, 1000/day name daily]}\n"})
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
		measure := func(b *testing.B, options ...string) {
			o := newOther(b, c.server)
			before := bucketOf(b, c.server)
			p := start(b, slices.Insert(slices.Clone(c.line), 1, options...))
			for c.name == "credit -all" && bucketOf(b, c.server) == before {
				time.Sleep(time.Millisecond)
			}
			var with, without, ratios []float64
			for range b.N {
				require.NoError(b, p.Process.Signal(syscall.SIGCONT))
				busy := o.p99(b)
				if p.Process.Signal(syscall.SIGSTOP) != nil {
					break // it has ended
				}
				rest := o.p99(b)
				with, without, ratios = append(with, busy), append(without, rest), append(ratios, busy/rest)
			}
			require.NotEmpty(b, ratios, "the premise: the command runs for long enough")
			b.ReportMetric(0, "ns/op") // is not shown
			b.ReportMetric(median(with), "µs-busy")
			b.ReportMetric(median(without), "µs-rest")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(float64(len(ratios)), "pairs")
		}
		b.Run(c.name+"/rate 0", func(b *testing.B) { measure(b, "-rate", "0") })
		b.Run(c.name+"/paced", func(b *testing.B) { measure(b) })
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// start runs a command until the test ends.
func start(tb testing.TB, line []string) *exec.Cmd {
	tb.Helper()
	binary := os.Getenv("RATELIMIT")
	if binary == "" {
		binary = os.Args[0]
	}
	c := exec.CommandContext(tb.Context(), binary, line...)
	c.Env = append(os.Environ(), "BE_RATELIMIT=1")
	require.NoError(tb, c.Start())
	go func() { _ = c.Wait() }()
	tb.Cleanup(func() { _ = c.Process.Kill() })
	return c
}

// loaded starts a server with buckets of the policy api.
func loaded(tb testing.TB, n int) *redistest.Server {
	tb.Helper()
	server := redistest.Start(tb)
	client := server.Client(tb)
	store := redisstore.New(client, redisstore.WithTimeout(time.Minute))
	l := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60).WithName("minute"), core.PerDay(1000).WithName("daily")}, OnFailure: core.FailClosed}))
	_, err := l.AllowN(tb.Context(), "sample", 30)
	require.NoError(tb, err)
	const fill = `local v = redis.call('get', KEYS[1]) for i = ARGV[1], ARGV[2] do redis.call('set', KEYS[1] .. i, v, 'px', 86400000) end return 1`
	for i := 0; i < n; i += 10_000 {
		require.NoError(tb, client.Eval(tb.Context(), fill, []string{"ratelimit:api:sample"}, i, i+9999).Err())
	}
	return server
}

// bucketOf is what a server has of the first client.
func bucketOf(tb testing.TB, s *redistest.Server) string {
	tb.Helper()
	client := s.Client(tb)
	defer func() { _ = client.Close() }()
	state, err := client.Get(tb.Context(), "ratelimit:api:sample").Result()
	require.NoError(tb, err)
	return state
}

// other is a client that decides at a steady rate.
type other struct {
	client  *redis.Client
	limiter *core.Limiter
}

func newOther(tb testing.TB, s *redistest.Server) *other {
	tb.Helper()
	client := s.Client(tb)
	store := redisstore.New(client, redisstore.WithTimeout(5*time.Second), redisstore.WithDenyCache(0))
	return &other{client, core.Must(core.NewLimiter(store, core.Policy{Name: "other", Limits: []core.Limit{core.PerMinute(1_000_000)}, OnFailure: core.FailClosed}))}
}

// p99 is the 99th percentile of the answer times of a slice, in µs. No decision
// waits for another.
func (o *other) p99(tb testing.TB) float64 {
	tb.Helper()
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
			_, err := o.limiter.Allow(tb.Context(), fmt.Sprint("user:", i%1000))
			d := time.Since(sent)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				tb.Error(err)
			}
			if sent.Sub(began) > warmUp {
				took = append(took, d)
			}
		})
	}
	all.Wait()
	require.NotEmpty(tb, took)
	slices.Sort(took)
	return float64(took[len(took)*99/100].Microseconds())
}
