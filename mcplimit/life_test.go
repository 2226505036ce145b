package mcplimit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/mcplimit"
)

// recovers turns panics of tools into errors, as middleware of an app does: the
// SDK lets them end the process.
func recovers(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if recover() != nil {
				err = errors.New("panic")
			}
		}()
		return next(ctx, method, req)
	}
}

// TestConformance shows when calls end, and that tokens and slots come back.
func TestWhichCallsHaveFailed(t *testing.T) {
	var answer func() (*mcp.CallToolResult, error)
	do := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return answer() }
	var seen *mcplimit.Call
	settle := mcplimit.WithSettle(func(c *mcplimit.Call) core.Units { seen = c; return nil })
	s := inMemory(t, serving(do, recovers, mcplimit.New(perHour("calls", 9), all, settle)))
	for name, test := range map[string]struct {
		answer        func() (*mcp.CallToolResult, error)
		failed, isErr bool
	}{
		"a success":                {func() (*mcp.CallToolResult, error) { return says("42"), nil }, false, false},
		"an error of the protocol": {func() (*mcp.CallToolResult, error) { return nil, assert.AnError }, true, true},
		"a result with isError":    {func() (*mcp.CallToolResult, error) { return &mcp.CallToolResult{IsError: true}, nil }, true, false},
		"a panic":                  {func() (*mcp.CallToolResult, error) { panic("tool") }, true, true},
	} {
		answer = test.answer
		_ = call(t, s, "ask")
		require.NotNil(t, seen, name)
		assert.Equal(t, test.failed, seen.Failed(), name)
		assert.Equal(t, test.isErr, seen.Err != nil, "%s has an Err", name)
		assert.Equal(t, test.isErr, seen.Result == nil, "%s has no Result", name)
		seen = nil
	}
}

func TestWhichMethodsAreLimited(t *testing.T) {
	list := func(s *mcp.ClientSession) error { _, err := s.ListTools(within(t), nil); return err }
	for name, test := range map[string]struct {
		options     []mcplimit.Option
		calls, list bool // whether they are limited
		ping        bool
	}{
		"by default":      {nil, true, false, false},
		"one of them":     {[]mcplimit.Option{mcplimit.Methods("tools/list")}, false, true, false},
		"both":            {[]mcplimit.Option{mcplimit.Methods("tools/list", "tools/call")}, true, true, false},
		"all":             {[]mcplimit.Option{mcplimit.AllMethods()}, true, true, false},
		"ping by name":    {[]mcplimit.Option{mcplimit.Methods("ping")}, false, false, true},
		"the last counts": {[]mcplimit.Option{mcplimit.AllMethods(), mcplimit.Methods("tools/list")}, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			limiter := perHour("calls", 1)
			server := serving(nil, mcplimit.New(limiter, mcplimit.ByMethod(), test.options...))
			url := served(t, streamableHandler(server, false)) // a handshake with initialize, notifications and ping
			s := session(t, streamable(url, nil))
			for what, one := range map[string]struct {
				limited bool
				do      func() error
			}{
				"tools/call": {test.calls, func() error {
					_, err := s.CallTool(within(t), &mcp.CallToolParams{Name: "ask"})
					return err
				}},
				"tools/list": {test.list, func() error { return list(s) }},
				"ping":       {test.ping, func() error { return s.Ping(within(t), nil) }},
			} {
				require.NoError(t, one.do(), "%s: the first passes", what)
				if err := one.do(); one.limited {
					refused(t, refusal(t, err), "calls", what+" is limited")
				} else {
					assert.NoError(t, err, "%s is not limited", what)
				}
			}
		})
	}
}

func TestMistakesInArgumentsPanic(t *testing.T) {
	for name, mistake := range map[string]func(){
		"ByTool":     func() { mcplimit.New(perHour("calls", 1), mcplimit.ByTool("ask", "")) },
		"AllMethods": func() { mcplimit.New(perHour("calls", 1), all, mcplimit.Methods()) }, // what to write instead
		"Methods":    func() { mcplimit.New(perHour("calls", 1), all, mcplimit.Methods("tools/call", "")) },
	} {
		func() {
			defer func() { assert.ErrorContains(t, recover().(error), name) }()
			mistake()
		}()
	}
}
