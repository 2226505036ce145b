// Package redistest gives tests a real Redis.
//
// ./scripts/test and ./scripts/soak start a server and set REDIS_ADDR to its
// address. Without REDIS_ADDR, the package starts the redis-server on the PATH
// for the test binary. Without that too, tests skip, or fail if REQUIRE_REDIS
// is set. REDIS_PROTOCOL=2 or 3 chooses the version of RESP.
package redistest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// go-redis logs failures of its pool, and tests break connections on purpose.
func init() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Addr returns the address of the shared server. Each test must use its own key
// prefix: see Prefix.
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
	c := redis.NewClient(&redis.Options{Addr: Addr(t), PoolSize: 64, Protocol: protocol()})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// protocol is the version of RESP that clients ask for: REDIS_PROTOCOL, or
// go-redis' default.
func protocol() int {
	version, _ := strconv.Atoi(os.Getenv("REDIS_PROTOCOL"))
	return version
}

// Major returns the first number of a server's version. That of Valkey and
// redict is the Redis they are compatible with.
func Major(t testing.TB, client *redis.Client) int {
	t.Helper()
	info, err := client.Info(context.Background(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(info, "redis_version:")
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		t.Fatalf("INFO server has no version: %s", info)
	}
	return n
}

var prefixes atomic.Int64

// Prefix returns a key prefix that no other test uses. Keys in Redis begin with
// it, and the policy follows.
func Prefix() string {
	return fmt.Sprintf("test-%d-%d-%d:", os.Getpid(), time.Now().UnixNano(), prefixes.Add(1))
}

// Unavailable ends a test that has no Redis. It fails the test under
// ./scripts/test and skips it elsewhere.
func Unavailable(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("REQUIRE_REDIS") != "" {
		t.Fatalf("this test needs Redis: %v", err)
	}
	t.Skipf("needs Redis: %v (install redis-server, or run ./scripts/test, which does)", err)
}

// shared returns the address of the server that all tests of this binary use.
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

// sharedServer keeps the pipe to the server open. The garbage collector would
// close it.
var sharedServer *Server

// FreePort returns a TCP port that was free a moment ago. No other test gets it
// until this process ends: else a server of another one could answer where one
// was killed. It is below the ports that systems give to clients, so that no
// client takes it while its server restarts. The port of a Cluster's bus, 10,000
// above, is below them too, and is no other server's port.
func FreePort() (port string, err error) {
	for range 100 {
		port = strconv.Itoa(10_000 + rand.IntN(10_000))
		addr := net.JoinHostPort("127.0.0.1", port)
		mark, taken := net.ListenPacket("udp", addr) // by which other tests see that it is taken
		if err = taken; err != nil {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err != nil {
			_ = mark.Close()
			continue
		}
		marks.Lock()
		marks.list = append(marks.list, mark)
		marks.Unlock()
		return port, l.Close()
	}
	return "", err
}

// marks keeps the sockets open that FreePort marks ports by. The garbage
// collector would close them.
var marks struct {
	sync.Mutex
	list []net.PacketConn
}
