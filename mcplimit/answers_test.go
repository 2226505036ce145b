package mcplimit_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/mcplimit"
)

// TestConformance shows the answers that all adapters have in common.

func TestADenialSaysWhenToRetryAndWhichLimit(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "calls", Limits: []core.Limit{
		{Name: "hour", Capacity: 1, RefillRate: 1, RefillInterval: time.Hour},
		{Name: "day", Capacity: 1, RefillRate: 1, RefillInterval: 24 * time.Hour},
		{Name: "year", Capacity: 9, RefillRate: 9, RefillInterval: 8760 * time.Hour},
	}})
	for name, connect := range transports {
		t.Run(name, func(t *testing.T) {
			s := connect(t, serving(nil, mcplimit.New(limiter, mcplimit.Join(mcplimit.BySession(), mcplimit.ByTool()))))()
			require.Nil(t, call(t, s, "ask"))
			e := call(t, s, "ask")
			require.NotNil(t, e)
			var d struct {
				RetryAfter float64
				Limit      string
				Limits     []string
			}
			require.NoError(t, json.Unmarshal(e.Data, &d))
			assert.EqualValues(t, 429, e.Code)
			assert.Equal(t, "rate limit exceeded", e.Message)
			assert.Greater(t, d.RetryAfter, 86000.0, "the longest wait, in seconds")
			assert.LessOrEqual(t, d.RetryAfter, 86400.0)
			assert.Equal(t, "hour", d.Limit)
			assert.Equal(t, []string{"hour", "day"}, d.Limits, "all limits that lack tokens, and no others")
		})
	}
}

func TestAnErrorOfTheClientIsAnsweredAsItIs(t *testing.T) {
	key := func(*mcplimit.Call) (string, error) {
		return "", fmt.Errorf("no such row: %w", &jsonrpc.Error{Code: -32001, Message: "who are you?"})
	}
	e := call(t, inMemory(t, serving(nil, mcplimit.New(perHour("calls", 1), key))), "ask")
	assert.Equal(t, &jsonrpc.Error{Code: -32001, Message: "who are you?"}, e, "without the text around it")
}

func TestAModelCanReadARefusal(t *testing.T) {
	limiter := perHour("searches", 1)
	s := inMemory(t, serving(nil, mcplimit.New(limiter, all, mcplimit.RefuseAsToolResult(), mcplimit.Methods("tools/call", "tools/list"))))
	require.Nil(t, call(t, s, "ask"))
	result, err := s.CallTool(within(t), &mcp.CallToolParams{Name: "ask"})
	require.NoError(t, err, "a refusal is a result")
	assert.True(t, result.IsError)
	require.Len(t, result.Content, 1)
	text := result.Content[0].(*mcp.TextContent).Text
	assert.Regexp(t, `^The rate limit "searches" is exceeded\. Try again in 3[56]\d\d seconds\.$`, text)
	_, err = s.ListTools(within(t), nil)
	refused(t, refusal(t, err), "searches", "other methods are refused by an error")
}

func TestOnDeniedAndOnErrorAnswer(t *testing.T) {
	denied := mcplimit.OnDenied(func(c *mcplimit.Call, res core.Result) (mcp.Result, error) {
		switch c.Tool {
		case "ask":
			return says("come back later"), nil
		case "other":
			return nil, &jsonrpc.Error{Code: -32000, Message: fmt.Sprint(res.Remaining)}
		}
		var none mcp.Result
		return none, nil
	})
	failed := mcplimit.OnError(func(_ *mcplimit.Call, err error) (mcp.Result, error) {
		assert.ErrorIs(t, err, core.ErrNoKey)
		return says("no key"), nil
	})
	key := func(c *mcplimit.Call) (string, error) {
		if c.Tool == "ask" && string(c.Arguments) != "{}" {
			return "", core.ErrNoKey
		}
		return "all", nil
	}
	s := inMemory(t, serving(nil, mcplimit.New(perHour("calls", 1), key, denied, failed)))
	text := func(arguments map[string]any) string {
		result, err := s.CallTool(within(t), &mcp.CallToolParams{Name: "ask", Arguments: arguments})
		require.NoError(t, err)
		return result.Content[0].(*mcp.TextContent).Text
	}
	assert.Equal(t, "42", text(map[string]any{}))
	assert.Equal(t, "come back later", text(map[string]any{}), "OnDenied answers with a result")
	assert.Equal(t, "no key", text(map[string]any{"a": 1}), "OnError answers with a result")
	assert.EqualValues(t, -32000, call(t, s, "other").Code, "OnDenied answers with an error")
	refused(t, call(t, s, "third"), "calls", "nil is the default answer")
}

func TestAnswersThatAreNilPointersAreNone(t *testing.T) {
	for name, denied := range map[string]func(*mcplimit.Call, core.Result) (mcp.Result, error){
		"result": func(*mcplimit.Call, core.Result) (mcp.Result, error) { return (*mcp.CallToolResult)(nil), nil },
		"error":  func(*mcplimit.Call, core.Result) (mcp.Result, error) { return nil, (*jsonrpc.Error)(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t, serving(nil, mcplimit.New(perHour("calls", 1), all, mcplimit.OnDenied(denied))))
			require.Nil(t, call(t, s, "ask"))
			refused(t, call(t, s, "ask"), "calls", "the default answer follows")
		})
	}
	key := func(*mcplimit.Call) (string, error) { return "", (*jsonrpc.Error)(nil) }
	s := inMemory(t, serving(nil, mcplimit.New(perHour("calls", 1), key)))
	assert.EqualValues(t, jsonrpc.CodeInternalError, call(t, s, "ask").Code, "an error that can't be answered is an internal one")
}
