// Package redistest gives tests a real Redis.
//
// ./scripts/test starts one and names it in REDIS_ADDR. Without that, a redis-server on the PATH is
// started for the test binary; without that too, tests skip, or fail when REQUIRE_REDIS is set.
package redistest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Addr returns the address of the shared server. Tests keep apart by their key prefixes: see Prefix.
func Addr(t testing.TB) string {
	t.Helper()
	addr, err := shared()
	if err != nil {
		Unavailable(t, err)
	}
	return addr
}

// Client returns a client of the shared server.
func Client(t testing.TB) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: Addr(t), PoolSize: 64})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var prefixes atomic.Int64

// Prefix returns a key prefix that no other test uses.
func Prefix() string {
	return fmt.Sprintf("test:%d:%d:%d:", os.Getpid(), time.Now().UnixNano(), prefixes.Add(1))
}

// Unavailable ends a test that can't have its Redis: it fails under ./scripts/test and skips
// elsewhere.
func Unavailable(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("REQUIRE_REDIS") != "" {
		t.Fatalf("this test needs Redis: %v", err)
	}
	t.Skipf("needs Redis: %v (install redis-server, or run ./scripts/test, which does)", err)
}

var shared = sync.OnceValues(func() (string, error) {
	if addr := os.Getenv("REDIS_ADDR"); addr != "" {
		return addr, nil
	}
	port, err := FreePort()
	if err != nil {
		return "", err
	}
	if _, err := start(port); err != nil {
		return "", err
	}
	addr := net.JoinHostPort("127.0.0.1", port)
	return addr, Ready(addr)
})

// start runs a redis-server that ends with this process, however that ends: the shell that started
// it waits for its standard input, which the kernel closes with us.
func start(port string, args ...string) (stop io.Closer, err error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, err
	}
	args = append([]string{"-c", `dir=$1; shift; "$@" & server=$!; read _; kill $server; wait $server; rm -rf "$dir"`,
		"sh", dir, binary, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--logfile", "redis.log"}, args...)
	cmd := exec.Command("sh", args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return stdin, cmd.Start()
}

// Ready waits until the server at addr answers.
func Ready(addr string) error {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer c.Close()
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := c.Ping(context.Background()).Err()
		if err == nil || strings.Contains(err.Error(), "NOAUTH") {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redis-server at %s does not answer: %w", addr, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// FreePort returns a TCP port that was free a moment ago.
func FreePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
