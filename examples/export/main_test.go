package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/hostile"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) { hostile.Main(m, main) }

func none() core.LimiterOption { return core.WithObserver(nil) }

func request(key string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/export", nil)
	r.Header.Set("X-Api-Key", key)
	return r
}

var quick = exporter{rows: 3, within: 2 * time.Second, atMost: time.Minute}

func TestAHostileClient(t *testing.T) {
	hostile.Run(t, func(t *testing.T, store core.Store) hostile.App {
		return hostile.App{
			Server: newServer("", app(store, none(), quick)), Request: request,
			Attacker: "ann-secret", Victim: "bob-secret", PerKey: 20, PerAddress: 100,
		}
	})
}

func TestDeploy(t *testing.T) {
	hostile.Deploy(t, func() *http.Request { return request("") }) // an export takes seconds
}

// endless is an export that only its client or a bound ends.
var endless = exporter{rows: 1 << 40, every: time.Hour, within: time.Hour, atMost: time.Hour}

// export asks for an export of ann. It is over when stop is called.
func export(t *testing.T, server string) (res *http.Response, stop context.CancelFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/export", nil)
	require.NoError(t, err)
	r.Header.Set("X-Api-Key", "ann-secret")
	res, err = http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { stop(); _ = res.Body.Close() })
	return res, stop
}

// begin begins an export of ann, and returns when its first row has come.
func begin(t *testing.T, server string) (rows *bufio.Reader, stop context.CancelFunc) {
	t.Helper()
	res, stop := export(t, server)
	require.Equal(t, http.StatusOK, res.StatusCode)
	rows = bufio.NewReader(res.Body)
	row, err := rows.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "1,ann\n", row)
	return rows, stop
}

// status is that of another export of ann.
func status(t *testing.T, server string) int {
	t.Helper()
	res, stop := export(t, server)
	stop()
	return res.StatusCode
}

func serveExports(t *testing.T, export exporter) (url string) {
	server := httptest.NewServer(app(core.NewMemoryStore(), none(), export))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

func wantFree(t *testing.T, server string) {
	t.Helper()
	require.Eventually(t, func() bool { return status(t, server) == http.StatusOK }, time.Minute, 10*time.Millisecond, "ann's slot does not come back")
}

func TestAUserHasOneExportAtATime(t *testing.T) {
	server := serveExports(t, endless)
	_, stop := begin(t, server)
	require.Equal(t, http.StatusTooManyRequests, status(t, server))
	stop()
	wantFree(t, server) // of a client that has gone
}

func TestFiveUsersExportAtATime(t *testing.T) {
	store := core.NewMemoryStore()
	all := core.Must(core.NewLimiter(store, core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(5).WithMaxHold(30 * time.Second)}}))
	for range 5 {
		_, err := all.Allow(t.Context(), "global:exports")
		require.NoError(t, err)
	}
	server := httptest.NewServer(app(store, none(), endless))
	defer server.Close()
	require.Equal(t, http.StatusTooManyRequests, status(t, server.URL))
}

func TestAClientThatDoesNotReadLosesItsSlot(t *testing.T) {
	server := serveExports(t, exporter{rows: 1 << 40, within: time.Second, atMost: time.Hour})
	c, err := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("GET /export HTTP/1.1\r\nHost: app\r\nX-Api-Key: ann-secret\r\n\r\n"))
	require.NoError(t, err)
	_, err = c.Read(make([]byte, 1))
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, status(t, server), "the premise: it has the slot")
	wantFree(t, server)
}

// Who reads, but slowly, is cut off too, and can't take what came for the
// whole.
func TestAnExportEndsAtItsBound(t *testing.T) {
	rows, _ := begin(t, serveExports(t, exporter{rows: 1 << 40, every: time.Hour, within: time.Hour, atMost: time.Second}))
	_, err := io.ReadAll(rows)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestAShutdownGivesSlotsBack(t *testing.T) {
	grace = 10 * time.Millisecond
	t.Cleanup(func() { grace = 15 * time.Second })
	store := core.NewMemoryStore()
	s := newServer("127.0.0.1:0", app(store, none(), endless))
	port, err := redistest.FreePort()
	require.NoError(t, err)
	s.Addr = "127.0.0.1:" + port
	ctx, term := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- serve(ctx, s) }()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", s.Addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	begin(t, "http://"+s.Addr)
	term()
	require.NoError(t, <-done)

	server := httptest.NewServer(app(store, none(), quick))
	defer server.Close()
	require.Equal(t, http.StatusOK, status(t, server.URL), "another replica has the slot at once")
}

// A whole export that has begun is sent before the program ends.
func TestAnExportOutlastsSIGTERM(t *testing.T) {
	p := hostile.Start(t, "")
	rows, _ := begin(t, "http://"+p.Addr)
	p.Terminate(t)
	rest, err := io.ReadAll(rows)
	require.NoError(t, err)
	require.Equal(t, 9, strings.Count(string(rest), "\n"))
	p.Wait(t)
}
