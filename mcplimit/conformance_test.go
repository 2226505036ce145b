package mcplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
	"github.com/tokenbucket-go/ratelimit/internal/rpctest"
	"github.com/tokenbucket-go/ratelimit/mcplimit"
)

func TestConformance(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, store func(store.Option) core.Store) { adaptertest.Run(t, kit, store) })
}

// kit describes the middleware of a server with streamable HTTP.
var kit = adaptertest.Kit[*mcplimit.Call, mcplimit.KeyFunc, mcplimit.Option, mcplimit.Rule, mcp.Middleware]{
	New: mcplimit.New, NewTogether: mcplimit.NewTogether,
	Allow:    allowing,
	ByHeader: mcplimit.ByHeader, ByContextValue: mcplimit.ByContextValue, ByRoute: func() mcplimit.KeyFunc { return mcplimit.ByTool() },
	Global: mcplimit.Global, Join: mcplimit.Join, FirstOf: mcplimit.FirstOf,
	Header:   func(c *mcplimit.Call, name string) string { return c.Header().Get(name) },
	Error:    func(status int) error { return &jsonrpc.Error{Code: codeOf(status), Message: "of the app"} },
	WithCost: mcplimit.WithCost, WithUnits: mcplimit.WithUnits, WithFloor: mcplimit.WithFloor, WithPlan: mcplimit.WithPlan, WithLimits: mcplimit.WithLimits, WithSkip: mcplimit.WithSkip,
	WithSettle: func(settle func(*mcplimit.Call, int) core.Units) mcplimit.Option {
		return mcplimit.WithSettle(func(c *mcplimit.Call) core.Units { return settle(c, statusOf(c.Err)) })
	},
	WithRefund: func(refund func(*mcplimit.Call, int) bool) mcplimit.Option {
		return mcplimit.WithRefund(func(c *mcplimit.Call) bool { return refund(c, statusOf(c.Err)) })
	},
	OnDenied: func(denied func(core.Result) (int, string)) mcplimit.Option {
		return mcplimit.OnDenied(func(_ *mcplimit.Call, res core.Result) (mcp.Result, error) { return own(denied(res)) })
	},
	OnError: func(failed func(error) (int, string)) mcplimit.Option {
		return mcplimit.OnError(func(_ *mcplimit.Call, err error) (mcp.Result, error) { return own(failed(err)) })
	},
	Serve: serve, RPC: true, NoFields: true, ProblemBody: true,
}

// codeOf returns the JSON-RPC code that stands for a status.
func codeOf(status int) int64 {
	for code, s := range statuses {
		if s == status {
			return code
		}
	}
	if status >= 500 {
		return jsonrpc.CodeInternalError
	}
	return int64(status)
}

var statuses = map[int64]int{
	mcplimit.CodeLimited: http.StatusTooManyRequests, jsonrpc.CodeInvalidParams: http.StatusBadRequest,
	mcplimit.CodeUnavailable: http.StatusServiceUnavailable, jsonrpc.CodeInternalError: http.StatusInternalServerError,
}

// statusOf returns the status that stands for the answer err, or nil.
func statusOf(err error) int {
	var own *jsonrpc.Error
	switch {
	case err == nil:
		return http.StatusOK
	case !errors.As(err, &own):
		return http.StatusInternalServerError
	}
	if status, ok := statuses[own.Code]; ok {
		return status
	}
	return int(own.Code)
}

func own(status int, body string) (mcp.Result, error) {
	if status == 0 {
		return nil, nil //nolint:nilnil // the default answer follows
	}
	return nil, &jsonrpc.Error{Code: codeOf(status), Message: rpctest.OfApp + body}
}

// allowing asks limiter as a tool does.
func allowing(limiter *core.Limiter, key func(*mcplimit.Call) string, then func(core.Result)) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			res, err := mcplimit.Allow(ctx, limiter, key(&mcplimit.Call{Request: req}))
			if err != nil {
				return nil, err
			}
			then(res)
			return next(ctx, method, req)
		}
	}
}

// carried has the header fields of a request of the suite, for the HTTP request
// of its call.
type carried struct{}

type carrier struct{}

func (carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	if header, ok := r.Context().Value(carried{}).(http.Header); ok {
		r = r.Clone(r.Context())
		for name, values := range header {
			if _, taken := r.Header[name]; !taken {
				r.Header[name] = values
			}
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

func serve(l net.Listener, app adaptertest.App[mcp.Middleware]) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "v1"}, nil)
	chains := make(map[string][]mcp.Middleware)
	for i, route := range app.Routes {
		name := fmt.Sprint("route", i)
		chains[name] = append(slices.Clip(app.Use), route.Use...)
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return reply(ctx, route)
		})
	}
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
			call, ok := req.GetParams().(*mcp.CallToolParamsRaw)
			if !ok {
				return next(ctx, method, req)
			}
			handler := next
			for _, limited := range slices.Backward(chains[call.Name]) {
				handler = limited(handler)
			}
			panicked := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "panic"}
			err = rpctest.Call(ctx, app, panicked, func(ctx context.Context) (err error) {
				result, err = handler(ctx, method, req)
				return err
			})
			return result, err
		}
	})
	s := httptest.NewServer(streamableHandler(server, false))
	defer s.Close()
	defer s.CloseClientConnections()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "v1"}, nil).Connect(context.Background(), streamable(s.URL, &http.Client{Transport: carrier{}}), nil)
	if err != nil {
		return err
	}
	defer client.Close()
	return adaptertest.Gateway(l, app, func(r *http.Request, route int) adaptertest.Answer {
		ctx := context.WithValue(r.Context(), carried{}, r.Header)
		result, err := client.CallTool(ctx, &mcp.CallToolParams{Name: fmt.Sprint("route", route), Arguments: map[string]any{}})
		a := answered(result, err)
		a.Gone = r.Context().Err() != nil
		return a
	})
}

// reply answers a call as the tool of its route says.
func reply(ctx context.Context, route adaptertest.Route[mcp.Middleware]) (*mcp.CallToolResult, error) {
	res, ok := mcplimit.FromContext(ctx)
	text := ""
	send := func(more string) error { text += more; return nil }
	if failed := rpctest.Reply(ctx, route, res, ok, mcplimit.AllFromContext(ctx), send); failed != 0 {
		return nil, &jsonrpc.Error{Code: codeOf(failed), Message: "tool"}
	}
	return says(text), nil
}

// answered returns the answer to a call.
func answered(result *mcp.CallToolResult, err error) adaptertest.Answer {
	a := adaptertest.Answer{Status: statusOf(err), Header: make(http.Header)}
	if err == nil {
		a.Body = result.Content[0].(*mcp.TextContent).Text
		return a
	}
	var own *jsonrpc.Error
	if !errors.As(err, &own) {
		a.Body = err.Error()
		return a
	}
	if own.Message == context.Canceled.Error() || own.Message == context.DeadlineExceeded.Error() {
		a.Status = http.StatusServiceUnavailable // JSON-RPC has no code for it
	}
	a.Body, a.Own = strings.CutPrefix(own.Message, rpctest.OfApp)
	var data struct {
		RetryAfter float64
		Limit      string
		Limits     []string
	}
	if own.Data != nil {
		a.Header.Set("Data", string(own.Data)) // which must show nothing internal
		if err := json.Unmarshal(own.Data, &data); err != nil {
			panic(err)
		}
	}
	if a.RetryAfter = time.Duration(data.RetryAfter * float64(time.Second)); data.Limits != nil {
		a.Limits = data.Limits
	} else if data.Limit != "" {
		a.Limits = []string{data.Limit}
	}
	return a
}
