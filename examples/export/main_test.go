package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
)

// client is a user's export. Its first row has come.
type client struct {
	rows *bufio.Reader
	stop context.CancelFunc
}

func get(t *testing.T, server *httptest.Server, user string) (*http.Response, context.CancelFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/export", nil)
	require.NoError(t, err)
	r.Header.Set("X-User", user)
	res, err := server.Client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return res, stop
}

// begin begins an export, as soon as there is a slot for it.
func begin(t *testing.T, server *httptest.Server, user string) client {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		res, stop := get(t, server, user)
		if res.StatusCode == http.StatusOK {
			rows := bufio.NewReader(res.Body)
			row, err := rows.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "1,"+user+"\n", row)
			return client{rows, stop}
		}
		stop()
		require.True(t, time.Now().Before(end), "the export of %s found no slot", user)
	}
}

func wantDenied(t *testing.T, server *httptest.Server, user, why string) {
	t.Helper()
	res, _ := get(t, server, user)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusTooManyRequests, res.StatusCode, "%s", body)
	assert.Contains(t, string(body), why)
	assert.NotEmpty(t, res.Header.Get("Retry-After"))
}

// Five exports run at once, and one of each user. The slot of a client that hangs up comes back.
func TestFiveExportsAtOnceAndOnePerUser(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		server := httptest.NewServer(newApp(newStore(core.WithClock(time.Now)), time.Hour))
		defer server.Close()
		defer server.CloseClientConnections()
		var clients []client
		for i := range 4 {
			clients = append(clients, begin(t, server, fmt.Sprint("user", i)))
		}
		wantDenied(t, server, "user0", "You have an export")
		clients = append(clients, begin(t, server, "user4")) // the denied request took no slot from the others
		wantDenied(t, server, "user5", "Five exports")
		clients[0].stop()
		begin(t, server, "user5")
		wantDenied(t, server, "user0", "Five exports")
		clients[1].stop()
		begin(t, server, "user0")
	})
}

// An export that is over gives its slot to the next at once.
func TestExportsInTurn(t *testing.T) {
	server := httptest.NewServer(newApp(core.NewMemoryStore(), 0))
	defer server.Close()
	for range 20 {
		res, _ := get(t, server, "ann")
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
		require.Equal(t, rows, strings.Count(string(body), "\n"))
	}
}
