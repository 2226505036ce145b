package redisstore_test

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// router shares keys among servers as twemproxy does: it sends each command to
// the server of its first key, and refuses commands without a key.
func router(t *testing.T, servers ...string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer c.Close(); route(c, servers) })
		}
	})
	return l.Addr().String()
}

// route serves one connection.
func route(client net.Conn, servers []string) {
	var backends []*bufio.ReadWriter
	for _, address := range servers {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		defer c.Close()
		backends = append(backends, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)))
	}
	in, out := bufio.NewReader(client), bufio.NewWriter(client)
	for {
		raw, words, err := reply(in)
		if err != nil {
			return
		}
		at := map[string]int{"get": 1, "set": 1, "del": 1, "eval": 3, "evalsha": 3}[strings.ToLower(words[0])]
		switch {
		case strings.EqualFold(words[0], "ping"):
			_, _ = out.WriteString("+PONG\r\n")
		case at == 0:
			_, _ = out.WriteString("-ERR unknown command\r\n")
		default:
			hash := fnv.New32a()
			_, _ = io.WriteString(hash, words[at])
			b := backends[int(hash.Sum32())%len(backends)]
			_, _ = b.WriteString(raw)
			_ = b.Flush()
			answer, _, err := reply(b.Reader)
			if err != nil {
				return
			}
			_, _ = out.WriteString(answer)
		}
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

// reply reads a value of RESP2: as it came, and its strings.
func reply(r *bufio.Reader) (raw string, words []string, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", nil, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch {
	case line[0] == '$' && n >= 0:
		text := make([]byte, n+2)
		if _, err = io.ReadFull(r, text); err != nil {
			return "", nil, err
		}
		return line + string(text), []string{string(text[:n])}, nil
	case line[0] == '*':
		raw = line
		for range n {
			part, of, err := reply(r)
			if err != nil {
				return "", nil, err
			}
			raw, words = raw+part, append(words, of...)
		}
	default:
		raw = line
	}
	return raw, words, nil
}

// A proxy that shares keys among servers sends a script to that of its first
// key, where the others have full buckets. So each call has one key there.
func TestAProxyOfSeveralServersGrantsWhatLimitsAllow(t *testing.T) {
	var lines logtest.Buffer
	address := router(t, redistest.Start(t).Addr, redistest.Start(t).Addr)
	store, err := redisstore.Open("redis://"+address, longTimeout, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	const keys, capacity = 16, 5
	l := limittest.Limiter(t, store, "api", core.PerDay(capacity))
	var granted [keys]atomic.Int64
	var all sync.WaitGroup
	for i := range keys * capacity * 4 {
		all.Go(func() {
			res, err := l.Allow(t.Context(), fmt.Sprint("k", i%keys))
			if err == nil && res.Allowed {
				granted[i%keys].Add(1)
			}
		})
	}
	all.Wait()
	for i := range granted {
		assert.Equal(t, int64(capacity), granted[i].Load(), "grants of key %d, of 4 times as many requests as its capacity", i)
	}

	one, other := limittest.Limiter(t, store, "one", core.PerDay(10)), limittest.Limiter(t, store, "other", core.PerDay(10))
	for i := range 20 {
		key := fmt.Sprint("joint", i)
		for range 11 {
			_, err := core.AllowTogether(t.Context(), core.Charge{Limiter: one, Key: key, Units: core.Units{core.Requests: 1}},
				core.Charge{Limiter: other, Key: key, Units: core.Units{core.Requests: 1}})
			require.NoError(t, err)
		}
		for _, l := range []*core.Limiter{one, other} {
			res, err := l.Peek(t.Context(), key)
			require.NoError(t, err)
			assert.Zero(t, res.Limits()[0].Remaining, "10 joint decisions took 10 tokens of each")
		}
	}
	assert.Equal(t, 1, lines.Count("RL723"), "it is warned of once: %s", lines.String())
	assert.Contains(t, lines.String(), "server=redis://"+address)
}

// A Redis is found to be one: nothing is said, and nothing is left there.
func TestARedisHasAllKeys(t *testing.T) {
	var lines logtest.Buffer
	server := redistest.Start(t)
	store, err := redisstore.Open("redis://"+server.Addr, longTimeout, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	one, other := limittest.Limiter(t, store, "one", core.PerDay(10)), limittest.Limiter(t, store, "other", core.PerDay(10))
	_, err = core.AllowTogether(t.Context(), core.Charge{Limiter: one, Key: "a", Units: core.Units{core.Requests: 1}},
		core.Charge{Limiter: other, Key: "b", Units: core.Units{core.Requests: 1}})
	require.NoError(t, err)
	n, err := server.Client(t).DBSize(t.Context()).Result()
	require.NoError(t, err)
	assert.Equal(t, int64(2), n, "of the two buckets")
	assert.Empty(t, lines.String())
}
