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

// A command that looks at many keys hardly changes the answer times of others.
// In turn, it runs and rests for a slice of time, so what else the machine does
// is in both, and what counts is the median of the ratios of a slice to the next
// one. It is printed in place of a time.
//
//	go test -run '^$' -bench Others -benchtime 20x .
//
// prints the ratios of 20 pairs each.
func BenchmarkOthers(b *testing.B) {
	server := loaded(b, 1_000_000)
	b.Chdir(b.TempDir())
	require.NoError(b, os.WriteFile("p.yaml", []byte("- {name: api, limits: [60/min name minute, 1000/day name daily]}\n"), 0o600))
	for _, line := range []string{"list api --policies p.yaml", "list --match no-such-customer", "doctor --policies p.yaml"} {
		measure := func(b *testing.B, options ...string) {
			others := othersOf(b, server)
			p := start(b, "redis://"+server.Addr, append(strings.Fields(line), options...))
			var ratios []float64
			for range b.N {
				require.NoError(b, p.Process.Signal(syscall.SIGCONT))
				busy := p99(b, others)
				if p.Process.Signal(syscall.SIGSTOP) != nil {
					break // it has ended
				}
				ratios = append(ratios, busy/p99(b, others))
			}
			require.NotEmpty(b, ratios, "the premise: the command runs for long enough")
			slices.Sort(ratios)
			b.ReportMetric(0, "ns/op") // is not shown
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
			b.ReportMetric(float64(len(ratios)), "pairs")
		}
		b.Run(line+"/rate 0", func(b *testing.B) { measure(b, "--rate", "0") })
		b.Run(line+"/paced", func(b *testing.B) { measure(b) })
	}
}

// start runs a command until the benchmark ends: see TestMain.
func start(b *testing.B, url string, line []string) *exec.Cmd {
	b.Helper()
	c := exec.CommandContext(b.Context(), os.Args[0], line...)
	c.Env = append(os.Environ(), "BE_RATELIMIT=1", urlVariable+"="+url)
	require.NoError(b, c.Start())
	go func() { _ = c.Wait() }()
	b.Cleanup(func() { _ = c.Process.Kill() })
	return c
}

// loaded starts a server with so many buckets of the policy api.
func loaded(b *testing.B, n int) *redistest.Server {
	b.Helper()
	server := redistest.Start(b)
	client := server.Client(b)
	store := redisstore.New(client, redisstore.WithTimeout(time.Minute))
	l := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60).WithName("minute"), core.PerDay(1000).WithName("daily")}, OnFailure: core.FailClosed}))
	_, err := l.AllowN(b.Context(), "sample", 30)
	require.NoError(b, err)
	const fill = `local v = redis.call('get', KEYS[1]) for i = ARGV[1], ARGV[2] do redis.call('set', KEYS[1] .. i, v, 'px', 86400000) end return 1`
	for i := 0; i < n; i += 10_000 {
		require.NoError(b, client.Eval(b.Context(), fill, []string{"ratelimit:api:sample"}, i, i+9999).Err())
	}
	return server
}

// othersOf returns the limiter of another client of a server.
func othersOf(b *testing.B, server *redistest.Server) *core.Limiter {
	b.Helper()
	store := redisstore.New(server.Client(b), redisstore.WithTimeout(5*time.Second), redisstore.WithDenyCache(0))
	return core.Must(core.NewLimiter(store, core.Policy{Name: "other", Limits: []core.Limit{core.PerMinute(1_000_000)}, OnFailure: core.FailClosed}))
}

// p99 is the 99th percentile of the answer times of a slice of decisions, in µs.
// No decision waits for another.
func p99(b *testing.B, l *core.Limiter) float64 {
	b.Helper()
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
			_, err := l.Allow(b.Context(), fmt.Sprint("user:", i%1000))
			d := time.Since(sent)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				b.Error(err)
			}
			if sent.Sub(began) > warmUp {
				took = append(took, d)
			}
		})
	}
	all.Wait()
	require.NotEmpty(b, took)
	slices.Sort(took)
	return float64(took[len(took)*99/100].Microseconds())
}
