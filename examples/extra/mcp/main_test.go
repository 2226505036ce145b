package main

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// TestMain runs the example if a test has started this program as its server.
func TestMain(m *testing.M) {
	if os.Getenv("MCP_EXAMPLE") != "" {
		main()
		return
	}
	os.Exit(m.Run())
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

// repeat calls the tool, and returns its text, and whether that is an error.
func repeat(t *testing.T, s *mcp.ClientSession, times int) (text string, isError bool) {
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

func TestSessionsHaveTheirOwnCalls(t *testing.T) {
	stdio := func() mcp.Transport {
		command := exec.Command(os.Args[0], "-stdio")
		command.Env = append(os.Environ(), "MCP_EXAMPLE=1")
		return &mcp.CommandTransport{Command: command}
	}
	store := newStore()
	web := httptest.NewServer(newHandler(store, newServer(store)))
	t.Cleanup(web.Close) // after the sessions, whose streams it waits for
	for name, transport := range map[string]func() mcp.Transport{
		"stdio":           stdio,
		"streamable HTTP": func() mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: web.URL} },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connect(t, transport()), connect(t, transport())
			for range 5 {
				text, isError := repeat(t, a, 1)
				require.False(t, isError, text)
			}
			text, isError := repeat(t, a, 1)
			assert.True(t, isError, "the sixth call of a session is refused")
			assert.Regexp(t, `^The rate limit "calls" is exceeded\. Try again in \d+ seconds?\.$`, text)
			_, isError = repeat(t, b, 1)
			assert.False(t, isError, "another session has its own bucket")
		})
	}
}

// What a call asks for is refused before it is done, and charges no more than
// what one call may return, so that the others don't wait for a debt. The SDK's
// errors quote what was sent.
func TestACallThatAsksForMuchMakesNoDebt(t *testing.T) {
	store := newStore()
	web := httptest.NewServer(newHandler(store, newServer(store)))
	t.Cleanup(web.Close)
	for _, arguments := range []any{
		repeatArguments{strings.Repeat("x", 1_000_000), 100},
		map[string]any{"text": strings.Repeat("x", 1_000_000), "times": strings.Repeat("y", 1_000_000)},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		s := connect(t, &mcp.StreamableClientTransport{Endpoint: web.URL})
		result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "repeat", Arguments: arguments})
		if err == nil {
			require.True(t, result.IsError)
			require.NotRegexp(t, `^The rate limit`, result.Content[0].(*mcp.TextContent).Text)
		}
		text, isError := repeat(t, connect(t, &mcp.StreamableClientTransport{Endpoint: web.URL}), 1)
		require.False(t, isError, text)
	}
}

func TestTheTextOfAllSessionsIsLimited(t *testing.T) {
	store := newStore()
	web := httptest.NewServer(newHandler(store, newServer(store)))
	t.Cleanup(web.Close) // after the sessions, whose streams it waits for
	open := func() *mcp.ClientSession { return connect(t, &mcp.StreamableClientTransport{Endpoint: web.URL}) }
	for range 5 {
		text, isError := repeat(t, open(), 40)
		require.False(t, isError, text)
	}
	text, isError := repeat(t, open(), 1)
	assert.True(t, isError, "10,000 bytes were returned")
	assert.Regexp(t, `^The rate limit "text" is exceeded\.`, text)
}
