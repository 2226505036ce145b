package grpclimit

import (
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// protocol is what gRPC knows of errors.
var protocol = middleware.Protocol[*Call]{
	ClientError: func(_ *Call, err error) bool { return clientStatus(err) != nil },
	Ended: func(err error) bool { // a service that a function of the app called says so by a status
		code := codeOf(err)
		return code == codes.Canceled || code == codes.DeadlineExceeded
	},
	Status: func(c *Call, cause middleware.Cause, err error) int {
		if cause == middleware.ClientError {
			return int(clientStatus(err).Code())
		}
		return int(cause.Refusal(c.ctx).Code)
	},
}

// clientStatus returns the status of an error of the client, which a function
// of the app returned, or nil if it is none. Text around the status is for
// logs.
func clientStatus(err error) *status.Status {
	var own interface{ GRPCStatus() *status.Status }
	if errors.As(err, &own) {
		if s := own.GRPCStatus(); middleware.Code(s.Code()).Client() {
			return s
		}
	}
	return nil
}

// refuse returns the error of a call, or of a message, that does not pass.
func (i *interceptor) refuse(c *Call, a *middleware.Admission) error {
	err := i.refusal(c, a)
	if a.Verdict == middleware.Denied {
		c.state.pushBack(middleware.Pushback(c.ctx, a.Result().RetryAfter), codeOf(err))
		if c.ofMessage() {
			a.Result().WriteHeaders(c.state)
		}
	}
	return err
}

func (i *interceptor) refusal(c *Call, a *middleware.Admission) error {
	switch {
	case a.Verdict == middleware.Denied:
		if i.denied != nil {
			if err := i.denied(c, a.Result()); err != nil {
				return err
			}
		}
	case i.failed != nil:
		if err := i.failed(c, a.Err); err != nil {
			return err
		}
	}
	if a.Cause == middleware.ClientError {
		return clientStatus(a.Err).Err()
	}
	r := a.Refusal(c.ctx)
	return statusOf(r).Err()
}

// statusOf returns the status of a refusal. Its details name the limits that
// lack tokens, and say when to retry.
func statusOf(r middleware.Refusal) *status.Status {
	var details []protoadapt.MessageV1
	if r.RetryAfter > 0 && r.RetryAfter != core.Never {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	}
	if r.Limits != nil {
		quota := new(errdetails.QuotaFailure)
		for _, limit := range r.Limits {
			quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{Subject: limit, QuotaId: limit, Description: middleware.LacksTokens(limit)})
		}
		details = append(details, quota)
	}
	s := status.New(codes.Code(r.Code), r.Message)
	if detailed, err := s.WithDetails(details...); err == nil { // it fails only for a message that can't be encoded
		return detailed
	}
	return s
}

// codeOf returns the code that the server answers with if a handler returns
// err.
func codeOf(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return status.FromContextError(err).Code()
}
