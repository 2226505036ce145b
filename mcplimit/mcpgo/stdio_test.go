package mcpgo_test

import (
	"context"
	"os"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/mcplimit/mcpgo"
)

// TestMain runs a server on stdin and stdout if a test has started this program
// as its server.
func TestMain(m *testing.M) {
	if os.Getenv("MCPGO_TEST_SERVER") != "" {
		_ = server.ServeStdio(serving(nil, mcpgo.New(perHour("calls", 1), mcpgo.Join(mcpgo.BySession(), mcpgo.ByTool()))))
		return
	}
	os.Exit(m.Run())
}

func TestAChildProcessOnStdioLimitsItsClient(t *testing.T) {
	c, err := client.NewStdioMCPClient(os.Args[0], []string{"MCPGO_TEST_SERVER=1"})
	c = connected(t, c, err)
	passes(t, c, "ask", "the session has a token")
	refused(t, c, "ask", denial, "the session has a bucket for each tool")
	passes(t, c, "other", "another tool")
}

// All servers on stdio call their session "stdio", so that processes would
// share a bucket in Redis.
func TestKeysOfStdioDifferBetweenProcesses(t *testing.T) {
	seen := ""
	key := func(c *mcpgo.Call) (string, error) {
		k, err := mcpgo.BySession()(c)
		seen = k
		return k, err
	}
	handle := mcpgo.New(perHour("calls", 9), key)(func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("42"), nil
	})
	ctx := serving(nil).WithContext(t.Context(), stdio{})
	_, err := handle(ctx, mcp.CallToolRequest{})
	require.NoError(t, err)
	assert.NotEqual(t, core.JoinKey("session", "stdio"), seen, "the key has something of the process")
	first := seen
	_, err = handle(ctx, mcp.CallToolRequest{})
	require.NoError(t, err)
	assert.Equal(t, first, seen, "a process keeps its key")
}

// stdio is a session as the library's transport for stdio has it.
type stdio struct{ server.ClientSession }

func (stdio) SessionID() string { return "stdio" }
