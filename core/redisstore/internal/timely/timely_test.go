package timely

import (
	"bufio"
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestOrdinaryClientGetsACloneThatMindsDeadlines(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: redistest.Addr(t)})
	t.Cleanup(func() { _ = client.Close() })
	clone, _ := Of(client).Get().(*redis.Client)
	require.NotNil(t, clone)
	assert.True(t, clone.Options().ContextTimeoutEnabled)
	assert.False(t, client.Options().ContextTimeoutEnabled, "the client stays as it is")
	require.NoError(t, client.Ping(context.Background()).Err())
	require.NoError(t, clone.Ping(context.Background()).Err())
	assert.EqualValues(t, 1, client.PoolStats().TotalConns, "both use the same connections")
}

// stuckServer answers all but ECHO. It announces its maintenance before it answers a PING: go-redis then waits for 10
// seconds, whatever its timeouts.
func stuckServer(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
	return l.Addr().String()
}

func answer(c net.Conn) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for {
		head, err := r.ReadString('\n')
		if err != nil {
			return
		}
		n, _ := strconv.Atoi(strings.TrimSpace(head[1:]))
		words := make([]string, n)
		for i := range words {
			_, _ = r.ReadString('\n') // its length
			word, _ := r.ReadString('\n')
			words[i] = strings.ToLower(strings.TrimSpace(word))
		}
		reply := "+OK\r\n"
		switch words[0] {
		case "hello":
			reply = "%1\r\n+proto\r\n:3\r\n"
		case "ping":
			reply = ">4\r\n$9\r\nMIGRATING\r\n:1\r\n:10\r\n*0\r\n+PONG\r\n"
		case "echo":
			reply = ""
		}
		_, _ = c.Write([]byte(reply))
	}
}

func TestStuckCommandEndsWithItsContext(t *testing.T) {
	for _, maintained := range []bool{false, true} {
		client := redis.NewClient(&redis.Options{Addr: stuckServer(t), ReadTimeout: time.Minute})
		t.Cleanup(func() { _ = client.Close() })
		if maintained {
			require.NoError(t, client.Ping(context.Background()).Err())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		began := time.Now()
		err := Of(client).Get().Do(ctx, "echo", "x").Err()
		cancel()
		require.Error(t, err)
		assert.Less(t, time.Since(began), 5*time.Second, "in maintenance: %v", maintained)
	}
}

// A hook may take any time. go-redis does not pass it on to a clone either, so commands would miss it.
func TestClientWithHooksIsNotWaitedFor(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		t.Cleanup(func() { _ = client.Close() })
		if when == "before" {
			client.AddHook(noHook{})
		}
		c := Of(client)
		if when == "after" {
			require.NotNil(t, c.Get())
			client.AddHook(noHook{})
		}
		assert.Nil(t, c.Get(), "a hook was added %s", when)
	}
}

type noLimiter struct{}

func (noLimiter) Allow() error       { return nil }
func (noLimiter) ReportResult(error) {}

func TestClientThatCallsTheApplicationIsNotWaitedFor(t *testing.T) {
	for name, o := range map[string]redis.Options{
		"OnConnect":                  {OnConnect: func(context.Context, *redis.Conn) error { return nil }},
		"Limiter":                    {Limiter: noLimiter{}},
		"CredentialsProvider":        {CredentialsProvider: func() (string, string) { return "", "" }},
		"CredentialsProviderContext": {CredentialsProviderContext: func(context.Context) (string, string, error) { return "", "", nil }},
	} {
		o.Addr = "127.0.0.1:1"
		client := redis.NewClient(&o)
		t.Cleanup(func() { _ = client.Close() })
		assert.Nil(t, Of(client).Get(), name)
	}
}

// What go-redis does not promise is tried before it is relied on. If this fails, with a new version of go-redis, nothing
// breaks: ordinary clients are slower until hookCounter knows their fields.
func TestHooksCanBeCounted(t *testing.T) {
	assert.True(t, hooksReadable())
}

func TestClientThatMindsDeadlinesIsWaitedFor(t *testing.T) {
	one := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ContextTimeoutEnabled: true})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}, ContextTimeoutEnabled: true})
	for _, client := range []redis.UniversalClient{one, cluster, ring} {
		t.Cleanup(func() { _ = client.Close() })
		assert.Same(t, client, Of(client).Get())
	}
	other := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	t.Cleanup(func() { _ = other.Close() })
	assert.Nil(t, Of(other).Get(), "the nodes' clients of a Cluster can't be cloned")
}
