package mcplimit_test

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/mcplimit"
)

// A tool that opens a session to another server passes its context on to that
// session's calls.
func TestACallWithinACallIsACallOfItsOwn(t *testing.T) {
	outer, inner := perHour("outer", 10), perHour("inner", 10)
	other := serving(func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		assert.Len(t, mcplimit.AllFromContext(ctx), 1, "the decisions of the call within alone")
		return says("42"), nil
	}, mcplimit.New(inner, all))
	s := inMemory(t, serving(func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		here, there := mcp.NewInMemoryTransports()
		if _, err := other.Connect(ctx, here, nil); err != nil {
			return nil, err
		}
		client, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "v1"}, nil).Connect(ctx, there, nil)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		for range 3 {
			if _, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "ask"}); err != nil {
				return nil, err
			}
		}
		res, _ := mcplimit.FromContext(ctx)
		assert.EqualValues(t, 9, res.Remaining, "the decision about the outer call")
		return says("42"), nil
	}, mcplimit.New(outer, all)))
	require.Nil(t, call(t, s, "ask"))
	assert.EqualValues(t, 9, limittest.Left(t, outer, "all"))
	assert.EqualValues(t, 7, limittest.Left(t, inner, "all"), "each call within is counted")
}
