package mcplimit

import (
	"errors"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// protocol is what the Model Context Protocol knows of errors.
var protocol = middleware.Protocol[*Call]{
	ClientError: func(_ *Call, err error) bool { return clientError(err) != nil },
	Status: func(c *Call, cause middleware.Cause, err error) int {
		if cause == middleware.ClientError {
			return int(clientError(err).Code)
		}
		return cause.Refusal(c.ctx).JSONCode()
	},
}

// clientError returns the JSON-RPC error that a function of the app returned
// for the client, or nil if it is none. Text around it is for logs.
func clientError(err error) *jsonrpc.Error {
	if own := (*jsonrpc.Error)(nil); errors.As(err, &own) && own != nil && own.Code != jsonrpc.CodeInternalError {
		return own
	}
	return nil
}

// answers reports whether a function of the app answered. A nil pointer is no
// answer: the SDK would panic, and end the process.
func answers(result mcp.Result, err error) bool { return !isNil(result) || !isNil(err) }

func isNil(v any) bool {
	value := reflect.ValueOf(v)
	return v == nil || value.Kind() == reflect.Pointer && value.IsNil()
}

// refuse returns the answer to a request that does not pass.
func (r *receiver) refuse(c *Call, a *middleware.Admission) (mcp.Result, error) {
	switch {
	case a.Verdict == middleware.Denied:
		if r.denied != nil {
			if result, err := r.denied(c, a.Result()); answers(result, err) {
				return result, err
			}
		}
	case r.failed != nil:
		if result, err := r.failed(c, a.Err); answers(result, err) {
			return result, err
		}
	}
	if a.Cause == middleware.ClientError {
		return nil, clientError(a.Err)
	}
	refusal := a.Refusal(c.ctx)
	if r.asResult && c.Method == callTool {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: refusal.Sentence()}}}, nil
	}
	return nil, &jsonrpc.Error{Code: int64(refusal.JSONCode()), Message: refusal.Message, Data: refusal.JSONData()}
}
