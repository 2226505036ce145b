// Package redistest gives tests a real Redis.
//
// ./scripts/test starts one and names it in REDIS_ADDR. Without that, a redis-server on the PATH is
// started for the test binary; without that too, tests skip, or fail when REQUIRE_REDIS is set.
package redistest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// go-redis prints what its pool meets; tests break connections on purpose.
func init() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

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

// shared names the server that all tests of this binary use.
var shared = sync.OnceValues(func() (string, error) {
	if addr := os.Getenv("REDIS_ADDR"); addr != "" {
		return addr, nil
	}
	var err error
	if sharedServer, err = start(); err != nil {
		return "", err
	}
	return sharedServer.Addr, nil
})

// sharedServer keeps the pipe to the server open: the collector would close it.
var sharedServer *Server

// FreePort returns a TCP port that was free a moment ago. It is below those that systems give to clients,
// so that none takes it while its server is restarted, and so is that of a Cluster's bus, 10,000 above, which
// is no other server's.
func FreePort() (port string, err error) {
	for range 100 {
		port = strconv.Itoa(10_000 + rand.IntN(10_000))
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			return port, l.Close()
		}
	}
	return "", err
}
