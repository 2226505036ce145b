package chaos_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/faultproxy"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// TestAddedLatency measures, for the report only, how many goroutines a healthy
// Redis with a long round trip serves with the default timeout.
func TestAddedLatency(t *testing.T) {
	if *reportFile == "" {
		t.Skip("measures for -report only")
	}
	for _, latency := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond} {
		for _, goroutines := range []int{64, 512, 4000, 8000} {
			t.Run(fmt.Sprint(latency, " ", goroutines), func(t *testing.T) { measureLatency(t, latency, goroutines) })
		}
	}
}

func measureLatency(t *testing.T, latency time.Duration, goroutines int) {
	t.Helper()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: delayProxy(t, server.Addr, latency), ContextTimeoutEnabled: true})
	defer client.Close()
	store := redisstore.New(client)
	l := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(1_000_000)}}))
	names := keyNames(goroutines)
	const rounds = 20
	asked(l, names, rounds) // so that connections are made and the store has measured the round trip
	var once burst
	for range 5 {
		healthy(t, l)
		one := asked(l, names, 1)
		once.decisions, once.fallback = once.decisions+one.decisions, once.fallback+one.fallback
	}
	healthy(t, l)
	steady := asked(l, names, max(rounds, int(20_000/max(time.Duration(goroutines), latency/time.Microsecond))))
	reportLatency(t, latency, goroutines, once, steady, store.Stats().Opened)
}

// healthy waits until the store decides, and then has no request for a while.
func healthy(t *testing.T, l *core.Limiter) {
	t.Helper()
	require.Eventually(t, func() bool {
		res, err := l.Allow(context.Background(), "single")
		return err == nil && res.Source == core.FromStore
	}, wait, 10*tick)
	time.Sleep(2 * timeout)
}

// burst holds the results of goroutines that start at once.
type burst struct {
	decisions, fallback int64
	took                time.Duration
	times               []time.Duration
}

func (b burst) share() string {
	return fmt.Sprintf("%.1f %%", 100*float64(b.fallback)/float64(b.decisions))
}

// asked starts a goroutine for each name at once. Each makes so many requests
// in a row.
func asked(l *core.Limiter, names []string, rounds int) burst {
	times := make([]time.Duration, len(names)*rounds)
	var fallback atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	start := make(chan struct{})
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			<-start
			for j := range rounds {
				began := time.Now()
				res, err := l.Allow(ctx, name)
				times[i*rounds+j] = time.Since(began)
				if err != nil || res.Source != core.FromStore {
					fallback.Add(1)
				}
			}
		})
	}
	began := time.Now()
	close(start)
	all.Wait()
	took := time.Since(began)
	slices.Sort(times)
	return burst{int64(len(times)), fallback.Load(), took, times}
}

// reportLatency adds a row to the table of added latencies.
func reportLatency(t *testing.T, latency time.Duration, goroutines int, once, steady burst, opened int64) {
	t.Helper()
	added := fmt.Sprint(latency)
	if latency == 0 {
		added = "none"
	}
	line := fmt.Sprintf("| %s | %d | %s | %.0fk | %s | %v | %d |\n", added, goroutines, once.share(),
		float64(steady.decisions-steady.fallback)/steady.took.Seconds()/1000, steady.share(),
		steady.times[len(steady.times)*99/100].Round(time.Millisecond/10), opened)
	t.Log(line)
	tables.Lock()
	defer tables.Unlock()
	tables.latencies = append(tables.latencies, line)
}

// delayedServer and addedLatency configure TestDelayProxy.
const (
	delayedServer = "DELAYED_SERVER"
	addedLatency  = "ADDED_LATENCY"
)

// delayProxy returns the address of a proxy that delays traffic to server. The
// proxy is another process, so that thousands of goroutines in this one do not
// delay it.
func delayProxy(t *testing.T, server string, latency time.Duration) (addr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestDelayProxy$", "-test.v")
	cmd.Env = append(os.Environ(), delayedServer+"="+server, addedLatency+"="+latency.String())
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if addr, ok := strings.CutPrefix(lines.Text(), delayedServer+"="); ok {
			return addr
		}
	}
	t.Fatal("the proxy does not start")
	return ""
}

// delayProxy runs TestDelayProxy in another process.
func TestDelayProxy(t *testing.T) {
	server := os.Getenv(delayedServer)
	if server == "" {
		t.Skip("is for TestAddedLatency")
	}
	latency, err := time.ParseDuration(os.Getenv(addedLatency))
	require.NoError(t, err)
	proxy := faultproxy.New(t, server)
	if latency > 0 {
		proxy.SetLatency(latency)
	}
	fmt.Println(delayedServer + "=" + proxy.Addr)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the process that started this one ends
}
