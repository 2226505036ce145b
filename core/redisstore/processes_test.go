package redisstore_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

const processVar = "RATELIMIT_TEST_PREFIX"

// TestProcess is one of the processes of
// TestManyProcessesGetExactlyTheCapacity.
func TestProcess(t *testing.T) {
	prefix := os.Getenv(processVar)
	if prefix == "" {
		t.Skip("run by TestManyProcessesGetExactlyTheCapacity")
	}
	client := redistest.Client(t)
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout), "slow", core.PerDay(1000))
	meet(t, client, prefix+"gate")
	var granted atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 5 {
				res, err := l.Allow(context.Background(), "everyone")
				if err != nil {
					t.Error(err)
					return
				}
				if res.Allowed {
					granted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("admitted=%d;", granted.Load())
}

// meet waits until all processes have started. The last one opens the gate for
// all.
func meet(t *testing.T, client *redis.Client, gate string) {
	t.Helper()
	ctx := context.Background()
	n, err := client.Incr(ctx, gate+":come").Result()
	if err != nil {
		t.Fatal(err)
	}
	if n == processes {
		client.RPush(ctx, gate, "go", "go", "go", "go")
	}
	if err := client.BLPop(ctx, time.Minute, gate).Err(); err != nil {
		t.Fatal("the other processes did not start:", err)
	}
}

const processes = 4

func TestManyProcessesGetExactlyTheCapacity(t *testing.T) {
	addr, prefix := redistest.Addr(t), redistest.Prefix()
	var mu sync.Mutex
	var total, busy int
	var wg sync.WaitGroup
	for range processes {
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
	// 1,280 requests in well under the 86 s in which a token comes back.
	if total != 1000 {
		t.Errorf("4 processes of 64 goroutines got %d of 1,000 tokens of one key", total)
	}
	if busy != processes { // each asks for 320
		t.Errorf("premise: all processes get tokens, but only %d did", busy)
	}
}
