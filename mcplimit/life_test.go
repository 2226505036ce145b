package mcplimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
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

func TestSlotsComeBackWhenACallIsOver(t *testing.T) {
	for name, connect := range transports {
		limiter := limiterOf(core.Policy{Name: "slots", Limits: []core.Limit{core.InFlight(1)}})
		started, end := make(chan struct{}), make(chan func() (*mcp.CallToolResult, error))
		work := func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			started <- struct{}{}
			select {
			case over := <-end:
				return over()
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		next := connect(t, serving(work, recovers, mcplimit.New(limiter, all)))
		s := next()
		for how, over := range map[string]func() (*mcp.CallToolResult, error){
			"succeeds": func() (*mcp.CallToolResult, error) { return says("42"), nil },
			"fails":    func() (*mcp.CallToolResult, error) { return nil, assert.AnError },
			"panics":   func() (*mcp.CallToolResult, error) { panic("tool") },
		} {
			t.Run(name+"/a call that "+how, func(t *testing.T) {
				limittest.ComesBack(t, limiter, "all", 1, "the premise: the slot is free")
				done := make(chan struct{})
				go func() { _, _ = s.CallTool(within(t), &mcp.CallToolParams{Name: "ask"}); close(done) }()
				<-started
				assert.EqualValues(t, 0, limittest.Left(t, limiter, "all"), "a call at work holds its slot")
				refused(t, call(t, s, "ask"), "slots", "no slot is left for another")
				end <- over
				<-done
				limittest.ComesBack(t, limiter, "all", 1, "the slot of a call that is over comes back")
			})
		}
		t.Run(name+"/a call that is cancelled", func(t *testing.T) {
			ctx, cancel := context.WithCancel(within(t))
			done := make(chan struct{})
			go func() { _, _ = s.CallTool(ctx, &mcp.CallToolParams{Name: "ask"}); close(done) }()
			<-started
			cancel()
			<-done
			limittest.ComesBack(t, limiter, "all", 1, "the slot of a cancelled call comes back")
		})
		t.Run(name+"/a session that ends", func(t *testing.T) {
			other := next()
			go func() { _, _ = other.CallTool(within(t), &mcp.CallToolParams{Name: "ask"}) }()
			<-started
			go func() { _ = other.Close() }()
			end <- func() (*mcp.CallToolResult, error) { return says("42"), nil } // the SDK lets calls at work end
			limittest.ComesBack(t, limiter, "all", 1, "the slot of a session that has ended comes back")
		})
	}
}

func TestRefundsGoByTheAnswer(t *testing.T) {
	limiter := perHour("calls", 9)
	var answer func() (*mcp.CallToolResult, error)
	do := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return answer() }
	s := inMemory(t, serving(do, recovers, mcplimit.New(limiter, all, mcplimit.WithRefund((*mcplimit.Call).Failed))))
	for _, test := range []struct {
		name   string
		answer func() (*mcp.CallToolResult, error)
		left   int64
	}{
		{"a success", func() (*mcp.CallToolResult, error) { return says("42"), nil }, 8},
		{"an error of the protocol", func() (*mcp.CallToolResult, error) { return nil, assert.AnError }, 8},
		{"a result with isError", func() (*mcp.CallToolResult, error) { return &mcp.CallToolResult{IsError: true}, nil }, 8},
		{"a panic", func() (*mcp.CallToolResult, error) { panic("tool") }, 8},
		{"another success", func() (*mcp.CallToolResult, error) { return says("42"), nil }, 7},
	} {
		answer = test.answer
		_ = call(t, s, "ask")
		assert.Equal(t, test.left, limittest.Left(t, limiter, "all"), "%s: only failures give the token back", test.name)
	}
}

func TestUnitsAreTakenAndSettledByTheResult(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "text", Limits: []core.Limit{{Unit: "bytes", Capacity: 100, RefillRate: 1, RefillInterval: 1e15}}})
	var held int64
	do := func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		held = limittest.Left(t, limiter, "all")
		return says("12345"), nil
	}
	units := mcplimit.WithUnits(func(c *mcplimit.Call) (core.Units, error) {
		assert.Equal(t, "ask", c.Tool)
		return core.Units{"bytes": 40}, nil
	})
	settle := mcplimit.WithSettle(func(c *mcplimit.Call) core.Units {
		assert.NoError(t, c.Err)
		return core.Units{"bytes": int64(len(c.Result.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text))}
	})
	s := inMemory(t, serving(do, mcplimit.New(limiter, all, units, settle)))
	require.Nil(t, call(t, s, "ask"))
	assert.EqualValues(t, 60, held, "the estimate is taken before the tool runs")
	assert.EqualValues(t, 95, limittest.Left(t, limiter, "all"), "what was returned is taken in the end")
}

func TestSettlementsSeeFailures(t *testing.T) {
	limiter := perHour("calls", 9)
	var seen *mcplimit.Call
	do := func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Params.Name == "ask" {
			return nil, assert.AnError
		}
		panic("tool")
	}
	settle := mcplimit.WithSettle(func(c *mcplimit.Call) core.Units { seen = c; return nil })
	s := inMemory(t, serving(do, recovers, mcplimit.New(limiter, all, settle)))
	for _, name := range []string{"ask", "other"} {
		_ = call(t, s, name)
		require.NotNil(t, seen)
		assert.Error(t, seen.Err, "%s: a failed call has an Err", name)
		assert.Nil(t, seen.Result, "%s: and no Result", name)
		seen = nil
	}
}

func TestRulesDecideTogether(t *testing.T) {
	tools, everything := perHour("tools", 2), perHour("all", 5)
	s := inMemory(t, serving(nil, mcplimit.NewTogether([]mcplimit.Rule{{Limiter: tools, Key: mcplimit.ByTool()}, {Limiter: everything, Key: all}})))
	require.Nil(t, call(t, s, "ask"))
	require.Nil(t, call(t, s, "ask"))
	refused(t, call(t, s, "ask"), "tools", "one of the limiters has no token")
	assert.EqualValues(t, 3, limittest.Left(t, everything, "all"), "a denied call takes nothing from any limiter")
	require.Nil(t, call(t, s, "other"))
}

func TestSkippedCallsAreNotCounted(t *testing.T) {
	skip := mcplimit.WithSkip(func(c *mcplimit.Call) bool { return c.Tool == "other" })
	s := inMemory(t, serving(nil, mcplimit.New(perHour("calls", 1), all, skip)))
	for range 3 {
		assert.Nil(t, call(t, s, "other"), "a skipped call passes")
	}
	assert.Nil(t, call(t, s, "ask"), "it took nothing")
	refused(t, call(t, s, "ask"), "calls", "others are counted")
}

func TestShadowModeRefusesNothing(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(1)}, Shadow: true})
	s := inMemory(t, serving(nil, mcplimit.New(limiter, mcplimit.ByTool())))
	for range 3 {
		assert.Nil(t, call(t, s, "ask"), "shadow mode allows what an enforced policy denies")
	}
	var log bytes.Buffer
	silent := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(1)}, Shadow: true},
		core.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
	s = inMemory(t, serving(nil, mcplimit.New(silent, mcplimit.ByTokenSubject())))
	assert.Nil(t, call(t, s, "ask"), "shadow mode allows a call without a key")
	assert.Contains(t, log.String(), "RL708", "and logs it")
	assert.Contains(t, log.String(), "path=tools/call")
}

func TestToolsFindTheDecisions(t *testing.T) {
	outer, inner := perHour("outer", 9), perHour("inner", 5)
	do := func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res, ok := mcplimit.FromContext(ctx)
		assert.True(t, ok)
		assert.EqualValues(t, 4, res.Remaining, "the decision of the limiter nearest to the tool")
		assert.Len(t, mcplimit.AllFromContext(ctx), 2)
		return says("42"), nil
	}
	require.Nil(t, call(t, inMemory(t, serving(do, mcplimit.New(outer, all), mcplimit.New(inner, all))), "ask"))
	_, ok := mcplimit.FromContext(t.Context())
	assert.False(t, ok, "without middleware there is no decision")
	assert.Empty(t, mcplimit.AllFromContext(t.Context()))
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
	for name, test := range map[string]struct {
		make func()
		want []string
	}{
		"New":         {func() { mcplimit.New(nil, mcplimit.ByHeader("")) }, []string{"limiter", "ByHeader"}},
		"NewTogether": {func() { mcplimit.NewTogether([]mcplimit.Rule{{Key: mcplimit.Join(mcplimit.ByTool("ask", ""))}}) }, []string{"limiter", "ByTool"}},
		"Methods":     {func() { mcplimit.New(perHour("calls", 1), all, mcplimit.Methods()) }, []string{"Methods", "AllMethods"}},
		"no name":     {func() { mcplimit.New(perHour("calls", 1), all, mcplimit.Methods("tools/call", "")) }, []string{"Methods"}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				err, _ := recover().(error)
				require.Error(t, err, "wrong arguments panic")
				for _, text := range test.want {
					assert.ErrorContains(t, err, text)
				}
			}()
			test.make()
		})
	}
}
