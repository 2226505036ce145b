package core_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

const processVar = "RATELIMIT_TEST_PREFIX"

// TestProcess is one of the processes of TestManyProcessesGetExactlyTheCapacity.
func TestProcess(t *testing.T) {
	prefix := os.Getenv(processVar)
	if prefix == "" {
		t.Skip("run by TestManyProcessesGetExactlyTheCapacity")
	}
	l := limiter(t, core.NewRedisStore(redistest.Client(t), core.WithPrefix(prefix), patient), "slow", core.PerDay(1000))
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 20 {
				res, err := l.Allow(context.Background(), "everyone")
				if err != nil {
					t.Error(err)
					return
				}
				if res.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("admitted=%d;", admitted.Load())
}

func TestManyProcessesGetExactlyTheCapacity(t *testing.T) {
	addr, prefix := redistest.Addr(t), redistest.Prefix()
	var mu sync.Mutex
	var total, busy int
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcess$", "-test.v")
			cmd.Env = append(os.Environ(), processVar+"="+prefix, "REDIS_ADDR="+addr)
			out, err := cmd.CombinedOutput()
			found := regexp.MustCompile(`admitted=(\d+);`).FindSubmatch(out)
			if err != nil || found == nil {
				t.Errorf("process: %v\n%s", err, out)
				return
			}
			n, _ := strconv.Atoi(string(found[1]))
			mu.Lock()
			defer mu.Unlock()
			total += n
			if n > 0 {
				busy++
			}
		})
	}
	wg.Wait()
	// 5,120 requests in well under the 86 s in which a token comes back.
	if total != 1000 {
		t.Errorf("4 processes of 64 goroutines got %d of 1,000 tokens of one key", total)
	}
	if busy < 2 {
		t.Errorf("the premise is a contest: only %d processes got tokens", busy)
	}
}
