package mcplimit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/mcplimit"
)

type data struct {
	RetryAfter *float64
	Limit      string
	Limits     []string
}

func dataOf(t *testing.T, e *jsonrpc.Error) (d data) {
	t.Helper()
	require.NotNil(t, e, "the premise: the call is refused")
	if e.Data != nil {
		require.NoError(t, json.Unmarshal(e.Data, &d))
	}
	return d
}

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
			d := dataOf(t, e)
			assert.EqualValues(t, 429, e.Code)
			assert.Equal(t, "rate limit exceeded", e.Message)
			require.NotNil(t, d.RetryAfter)
			assert.Greater(t, *d.RetryAfter, 86000.0, "the longest wait, in seconds")
			assert.LessOrEqual(t, *d.RetryAfter, 86400.0)
			assert.Equal(t, "hour", d.Limit)
			assert.Equal(t, []string{"hour", "day"}, d.Limits, "all limits that lack tokens, and no others")
		})
	}
}

func TestADenialThatNoWaitHelpsHasNoRetryAfter(t *testing.T) {
	costly := mcplimit.WithCost(func(*mcplimit.Call) (int64, error) { return 3, nil })
	e := call(t, inMemory(t, serving(nil, mcplimit.New(perHour("calls", 2), all, costly))), "ask")
	refused(t, e, "calls", "a cost above the capacity never passes")
	assert.Nil(t, dataOf(t, e).RetryAfter)
}

func TestRefusalsShowNothingInternal(t *testing.T) {
	var log bytes.Buffer
	logs := slog.New(slog.NewTextHandler(&log, nil))
	closed := core.Must(core.NewLimiter(&limittest.AwayStore{Err: errAway}, core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(1)}, OnFailure: core.FailClosed}, core.WithLogger(logs)))
	good := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(9)}}, core.WithLogger(logs)))
	own := &jsonrpc.Error{Code: -32001, Message: "who are you?"}
	for name, test := range map[string]struct {
		limiter *core.Limiter
		key     error
		code    int64
		retry   bool
		message string
	}{
		"no store, fails closed":     {closed, nil, mcplimit.CodeUnavailable, true, "the rate limit can't be checked at the moment"},
		"no key":                     {good, fmt.Errorf("%w: secret", core.ErrNoKey), -32602, false, "the call has no usable key for its rate limit"},
		"a function failed":          {good, errors.New("secret"), -32603, false, "the rate limit can't be checked"},
		"a function's internal code": {good, &jsonrpc.Error{Code: -32603, Message: "secret"}, -32603, false, "the rate limit can't be checked"},
		"an error of the client":     {good, fmt.Errorf("secret: %w", own), -32001, false, "who are you?"},
	} {
		t.Run(name, func(t *testing.T) {
			log.Reset()
			e := call(t, inMemory(t, serving(nil, mcplimit.New(test.limiter, func(*mcplimit.Call) (string, error) { return "all", test.key }))), "ask")
			d := dataOf(t, e)
			assert.Equal(t, test.code, e.Code)
			assert.Equal(t, test.message, e.Message)
			assert.Equal(t, test.retry, d.RetryAfter != nil, "retryAfter is there if a wait may help")
			if test.code == -32603 {
				assert.Contains(t, log.String(), "secret", "the log has the error")
			}
		})
	}
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
