package grpclimit

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

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
	Status: func(c *Call, cause middleware.Cause, err error) int {
		return int(failure(c.ctx, cause, err).Code())
	},
}

// clientStatus returns the status of an error of the client, which a function of the app returned, or nil if it is none. Text around
// the status is for logs.
func clientStatus(err error) *status.Status {
	var own interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &own) {
		return nil
	}
	switch s := own.GRPCStatus(); s.Code() {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.ResourceExhausted, codes.FailedPrecondition, codes.OutOfRange, codes.Aborted:
		return s
	}
	return nil
}

// storeRetry is how long clients wait at least while the store does not answer.
const storeRetry = time.Second

// failure returns the status of a call that has no decision. It shows nothing of err, unless that is an error of the client.
func failure(ctx context.Context, cause middleware.Cause, err error) *status.Status {
	switch cause {
	case middleware.ClientError:
		return clientStatus(err)
	case middleware.NoKey:
		return status.New(codes.InvalidArgument, "the call has no usable key for its rate limit")
	case middleware.Unavailable:
		return withDetails(codes.Unavailable, "the rate limit can't be checked at the moment", retryInfo(storeRetry))
	case middleware.Ended:
		return status.FromContextError(ctx.Err())
	}
	return status.New(codes.Internal, "the rate limit can't be checked")
}

// refuse returns the error of a call, or of a message, that does not pass.
func (i *interceptor) refuse(c *Call, a *middleware.Admission) error {
	if a.Outcome == middleware.Denied {
		c.state.pushBack(pushback(c.ctx, a.Result.RetryAfter))
		if i.denied != nil {
			if err := i.denied(c, a.Result); err != nil {
				return err
			}
		}
		return denial(a).Err()
	}
	if i.failed != nil {
		if err := i.failed(c, a.Err); err != nil {
			return err
		}
	}
	s := failure(c.ctx, a.Cause, a.Err)
	if s.Code() == codes.Internal {
		i.engine.Logger().ErrorContext(c.ctx, "ratelimit: request refused", "code", "RL709", "error", a.Err)
	}
	return s.Err()
}

// denial returns the status of a denied call. Its details name the limits that lack tokens.
func denial(a *middleware.Admission) *status.Status {
	p := a.Problem()
	quota := new(errdetails.QuotaFailure)
	for _, limit := range p.ViolatedPolicies {
		quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{
			Subject: limit, QuotaId: limit, Description: "the limit " + strconv.Quote(limit) + " has too few tokens left",
		})
	}
	if a.Result.RetryAfter == core.Never {
		return withDetails(codes.ResourceExhausted, "the call asks for more than its rate limit can ever allow", quota)
	}
	return withDetails(codes.ResourceExhausted, "rate limit exceeded", retryInfo(a.Result.RetryAfter), quota)
}

func retryInfo(after time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(after)}
}

func withDetails(code codes.Code, message string, details ...protoadapt.MessageV1) *status.Status {
	s := status.New(code, message)
	if detailed, err := s.WithDetails(details...); err == nil { // it fails only for a message that can't be encoded
		return detailed
	}
	return s
}

// pushbackField is the trailer that tells clients when to retry (gRFC A6).
const pushbackField = "grpc-retry-pushback-ms"

// pushback returns the value of pushbackField: whole milliseconds, rounded up. A negative one says not to retry: if no wait is
// long enough, or the call's deadline comes first, which would then hide the denial.
func pushback(ctx context.Context, after time.Duration) string {
	ms := after / time.Millisecond
	if after%time.Millisecond > 0 {
		ms++
	}
	deadline, limited := ctx.Deadline()
	if ms > math.MaxInt32 || limited && time.Until(deadline) < after { // clients in some languages read 32 bits
		return "-1"
	}
	return strconv.FormatInt(int64(ms), 10)
}

// codeOf returns the code that the server answers with if a handler returns err.
func codeOf(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return status.FromContextError(err).Code()
}
