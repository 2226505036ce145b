// Package rpc is what interceptors of RPC frameworks have in common: the codes
// and texts of refusals, when clients retry, and how the messages of a stream
// are decided one by one.
//
// See [docs/rpc.md].
//
// [docs/rpc.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/rpc.md
package rpc

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Code is a status code. gRPC and Connect number them alike.
type Code int

// The codes that limiters answer with.
const (
	Canceled          Code = 1
	InvalidArgument   Code = 3
	DeadlineExceeded  Code = 4
	ResourceExhausted Code = 8
	Internal          Code = 13
	Unavailable       Code = 14
)

// Client reports whether an error with the code is one of the client. If a
// function of the app returns it, clients see it.
func (c Code) Client() bool {
	switch c {
	case InvalidArgument, 5 /* NotFound */, 6 /* AlreadyExists */, 7 /* PermissionDenied */, ResourceExhausted,
		9 /* FailedPrecondition */, 10 /* Aborted */, 11 /* OutOfRange */, 16 /* Unauthenticated */ :
		return true
	}
	return false
}

// Refusal is the answer to a call that does not pass. It shows nothing that a
// client must not see.
type Refusal struct {
	Code    Code
	Message string
	// RetryAfter is when the call may pass: 0 if that is not known,
	// [core.Never] if no wait is long enough.
	RetryAfter time.Duration
	// Limits are the names of the limits that lack tokens.
	Limits []string
}

// storeRetry is how long clients wait at least while the store does not answer.
const storeRetry = time.Second

// Refuse describes the refusal of a, a call with the context ctx. Errors of the
// client are the protocol's own: Refuse is not for these.
func Refuse(ctx context.Context, a *middleware.Admission) Refusal {
	if a.Verdict != middleware.Denied {
		return Fail(ctx, a.Cause)
	}
	r := Refusal{Code: ResourceExhausted, Message: "rate limit exceeded", RetryAfter: a.Result.RetryAfter, Limits: a.Problem().ViolatedPolicies}
	if r.RetryAfter == core.Never {
		r.Message = "the call asks for more than its rate limit can ever allow"
	}
	return r
}

// Fail describes the refusal of a call with the context ctx that has no
// decision.
func Fail(ctx context.Context, cause middleware.Cause) Refusal {
	switch cause {
	case middleware.NoKey:
		return Refusal{Code: InvalidArgument, Message: "the call has no usable key for its rate limit"}
	case middleware.Unavailable:
		return Refusal{Code: Unavailable, Message: "the rate limit can't be checked at the moment", RetryAfter: storeRetry}
	case middleware.Ended:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return Refusal{Code: DeadlineExceeded, Message: context.DeadlineExceeded.Error()}
		}
		return Refusal{Code: Canceled, Message: context.Canceled.Error()}
	}
	return Refusal{Code: Internal, Message: "the rate limit can't be checked"}
}

// LacksTokens describes a limit that lacks tokens, for people who read a
// refusal's details.
func LacksTokens(limit string) string {
	return "the limit " + strconv.Quote(limit) + " has too few tokens left"
}

// Service returns the service of a full method, such as files.v1.Files of
// /files.v1.Files/Read. It is "" if there is none. As servers route it, the
// method is what follows the last slash.
func Service(method string) string {
	method = strings.TrimPrefix(method, "/")
	return method[:max(0, strings.LastIndexByte(method, '/'))]
}

// HealthOrReflection reports whether a full method is one of health checks or
// reflection.
func HealthOrReflection(method string) bool {
	switch Service(method) {
	case "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection":
		return true
	}
	return false
}
