package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/hostile"
)

// TestMain runs the example if a test has started this program as its server.
func TestMain(m *testing.M) { hostile.Main(m, main) }

func none() core.LimiterOption { return core.WithObserver(nil) }

// request calls the tool as older clients do, without a session.
func request(key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"repeat","arguments":{"text":"x","times":1}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	r.Header.Set("Authorization", "Bearer "+key)
	return r
}

func TestAHostileClient(t *testing.T) {
	hostile.Run(t, func(t *testing.T, store core.Store) hostile.App {
		var called atomic.Int64 // the tool
		count := core.WithObserver(func(_ context.Context, o core.Observation) {
			if o.Policy == "calls" && o.Outcome == core.OutcomeAllowed {
				called.Add(1)
			}
		})
		return hostile.App{
			Server: newServer("", app(store, count)), Request: request,
			Attacker: "ann-secret", Victim: "bob-secret", PerKey: 20, PerAddress: 100,
			Send: func(ip string, r *http.Request) int {
				res, err := hostile.Client(t, ip).Do(r)
				if err != nil {
					return 0
				}
				defer res.Body.Close()
				body, _ := io.ReadAll(res.Body)
				if strings.Contains(string(body), `"isError":true`) { // the status is 200 all the same
					return http.StatusTooManyRequests
				}
				return res.StatusCode
			},
			Worked: func() int { return int(called.Load()) },
		}
	})
}

func TestDeploy(t *testing.T) {
	hostile.Deploy(t, func() *http.Request { return request("ann-secret") })
}

// asUser adds a bearer token.
type asUser string

func (u asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(u))
	return http.DefaultTransport.RoundTrip(r)
}

// serveHTTP returns a function that makes a transport of a user.
func serveHTTP(t *testing.T, store core.Store) func(token string) mcp.Transport {
	t.Helper()
	web := httptest.NewServer(app(store, none()))
	t.Cleanup(web.Close) // after the sessions, whose streams it waits for
	return func(token string) mcp.Transport {
		return &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: &http.Client{Transport: asUser(token)}}
	}
}

func connect(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "v1"}, nil).Connect(ctx, transport, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// callRepeat calls the tool, and returns its text, and whether that is an error.
func callRepeat(t *testing.T, s *mcp.ClientSession, times int) (text string, isError bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "repeat", Arguments: repeatArguments{strings.Repeat("x", 50), times}})
	require.NoError(t, err)
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

// newStore returns a store whose clock stands still, so that no token comes
// back on a slow machine.
func newStore() core.Store {
	stopped := time.Now()
	return core.NewMemoryStore(core.WithClock(func() time.Time { return stopped }))
}

func TestUsersHaveTheirOwnCalls(t *testing.T) {
	as := serveHTTP(t, newStore())
	a, again, b := connect(t, as("ann-secret")), connect(t, as("ann-secret")), connect(t, as("bob-secret"))
	for range 20 {
		text, isError := callRepeat(t, a, 1)
		require.False(t, isError, text)
	}
	for _, s := range []*mcp.ClientSession{a, again} {
		text, isError := callRepeat(t, s, 1)
		assert.True(t, isError, "another session of the user is no other bucket")
		assert.Regexp(t, `^The rate limit "calls" is exceeded\. Try again in \d+ seconds?\.$`, text)
	}
	_, isError := callRepeat(t, b, 1)
	assert.False(t, isError, "another user")
}

func TestOnStdioTheClientHasItsCalls(t *testing.T) {
	command := exec.Command(os.Args[0], "-stdio")
	command.Env = append(os.Environ(), hostile.AsProgram)
	s := connect(t, &mcp.CommandTransport{Command: command})
	text, isError := callRepeat(t, s, 1)
	require.False(t, isError, text)
	for range 100 { // on a slow machine tokens come back meanwhile
		if text, isError = callRepeat(t, s, 1); isError {
			break
		}
	}
	assert.Regexp(t, `^The rate limit "calls" is exceeded`, text)
}

// What a call asks for is refused before it is done, and charges no more than
// what one call may return, so that the others don't wait for a debt. The SDK's
// errors quote what was sent.
func TestACallThatAsksForMuchMakesNoDebt(t *testing.T) {
	as := serveHTTP(t, newStore())
	for _, arguments := range []any{
		repeatArguments{strings.Repeat("x", 50_000), 100},
		repeatArguments{strings.Repeat("x", 1_000_000), 100},
		map[string]any{"text": strings.Repeat("x", 20_000), "times": strings.Repeat("y", 20_000)},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		result, err := connect(t, as("ann-secret")).CallTool(ctx, &mcp.CallToolParams{Name: "repeat", Arguments: arguments})
		if err == nil {
			require.True(t, result.IsError)
			require.NotRegexp(t, `^The rate limit`, result.Content[0].(*mcp.TextContent).Text)
		}
		for _, user := range []string{"ann-secret", "bob-secret"} {
			text, isError := callRepeat(t, connect(t, as(user)), 1)
			require.False(t, isError, text)
		}
	}
}

func TestAUserGetsAPartOfTheText(t *testing.T) {
	as := serveHTTP(t, newStore())
	s := connect(t, as("ann-secret"))
	for range 10 {
		text, isError := callRepeat(t, s, 40) // 2,000 bytes
		require.False(t, isError, text)
	}
	text, isError := callRepeat(t, s, 1)
	assert.True(t, isError, "20,000 bytes were returned")
	assert.Regexp(t, `^The rate limit "text-of-user" is exceeded\.`, text)
	_, isError = callRepeat(t, connect(t, as("bob-secret")), 1)
	assert.False(t, isError, "another user")
}
