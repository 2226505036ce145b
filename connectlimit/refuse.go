package connectlimit

import (
	"context"
	"errors"
	"math"
	"os"
	"strconv"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// protocol is what Connect knows of errors.
var protocol = middleware.Protocol[*Call]{
	ClientError: func(_ *Call, err error) bool { return clientError(err) != nil },
	Ended: func(err error) bool { // a service that a function of the app called says so by a code
		code := connect.CodeOf(err)
		return code == connect.CodeCanceled || code == connect.CodeDeadlineExceeded
	},
	Status: func(c *Call, cause middleware.Cause, err error) int {
		if cause == middleware.ClientError {
			return int(clientError(err).Code())
		}
		return int(cause.Refusal(c.ctx).Code)
	},
}

// clientError returns the error of the client that a function of the app
// returned, or nil if it is none. Text around it is for logs.
func clientError(err error) *connect.Error {
	var own *connect.Error
	if errors.As(err, &own) && own != nil && middleware.Code(own.Code()).Client() {
		return own
	}
	return nil
}

// refuse returns the error of a call, or of a message, that does not pass.
func (i *interceptor) refuse(c *Call, a *middleware.Admission) error {
	r := a.Refusal(c.ctx)
	switch {
	case a.Verdict == middleware.Denied:
		if c.isMessage() {
			a.Result().WriteHeaders(c.state)
		}
		if i.denied != nil {
			if err := i.denied(c, a.Result()); err != nil {
				return err
			}
		}
	default:
		if a.Cause == middleware.Unavailable {
			retryLater(c.state, r)
		}
		if i.failed != nil {
			if err := i.failed(c, a.Err); err != nil {
				return err
			}
		}
	}
	if a.Cause == middleware.ClientError {
		return clientError(a.Err)
	}
	return errorOf(r)
}

// retryLater writes the fields that middleware of HTTP sends while the store
// does not answer.
func retryLater(h core.HeaderWriter, r middleware.Refusal) {
	h.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.RetryAfter.Seconds()))))
	h.Set("Cache-Control", "no-store")
}

// errorOf returns the error of a refusal. Its details name the limits that lack
// tokens, and say when to retry.
func errorOf(r middleware.Refusal) *connect.Error {
	err := connect.NewError(connect.Code(r.Code), errors.New(r.Message))
	if r.RetryAfter > 0 && r.RetryAfter != core.Never {
		addDetail(err, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	}
	if r.Limits != nil {
		quota := new(errdetails.QuotaFailure)
		for _, limit := range r.Limits {
			quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{Subject: limit, QuotaId: limit, Description: middleware.LacksTokens(limit)})
		}
		addDetail(err, quota)
	}
	return err
}

func addDetail(err *connect.Error, detail proto.Message) {
	if d, failed := connect.NewErrorDetail(detail); failed == nil { // it fails only for a message that can't be encoded
		err.AddDetail(d)
	}
}

// codeOf returns the code that a call is answered with if its handler returns
// err: 0 if it succeeds.
func codeOf(err error) connect.Code {
	var own *connect.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &own) && own != nil:
		return own.Code()
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return connect.CodeDeadlineExceeded
	}
	return connect.CodeUnknown
}
