package chaos_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// watcher is a process of its own that measures how long a server takes to
// answer, however busy the test is.
type watcher struct {
	ask     *os.File
	answers *bufio.Scanner
}

// watchedServer is the variable that has the server's address in a watcher's
// process.
const watchedServer = "CHAOS_WATCHED"

// watchOther starts a watcher of the server at addr.
func watchOther(t *testing.T, addr string) *watcher {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWatcher$", "-test.v")
	cmd.Env = append(os.Environ(), watchedServer+"="+addr)
	read, ask, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdin = read
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_ = read.Close()
	t.Cleanup(func() {
		_ = ask.Close()
		_ = cmd.Wait()
	})
	w := &watcher{ask: ask, answers: bufio.NewScanner(out)}
	w.slowest(t) // it has connected
	return w
}

// slowest is the slowest answer since it was last asked.
func (w *watcher) slowest(t *testing.T) time.Duration {
	t.Helper()
	_, err := fmt.Fprintln(w.ask)
	require.NoError(t, err)
	for w.answers.Scan() {
		if text, ok := strings.CutPrefix(w.answers.Text(), "slowest "); ok {
			d, err := time.ParseDuration(text)
			require.NoError(t, err)
			return d
		}
	}
	require.FailNow(t, "the watcher has ended")
	return 0
}

// TestWatcher is the watcher's process.
func TestWatcher(t *testing.T) {
	addr := os.Getenv(watchedServer)
	if addr == "" {
		t.Skip("for tests that start it")
	}
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1})
	defer client.Close()
	require.NoError(t, client.Ping(context.Background()).Err())
	var mu sync.Mutex // held during a ping, so that one on its way is waited for
	slowest := time.Duration(0)
	go func() {
		for {
			mu.Lock()
			began := time.Now()
			err := client.Ping(context.Background()).Err()
			slowest = max(slowest, time.Since(began))
			mu.Unlock()
			if err != nil {
				return
			}
			time.Sleep(timeout / 50)
		}
	}()
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		mu.Lock()
		fmt.Println("slowest", slowest)
		slowest = 0
		mu.Unlock()
	}
}
