package middleware

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Code is a status code of an RPC. gRPC and Connect number them alike.
type Code int

// The codes that limiters answer with.
const (
	CodeCanceled          Code = 1
	CodeInvalidArgument   Code = 3
	CodeDeadlineExceeded  Code = 4
	CodeResourceExhausted Code = 8
	CodeInternal          Code = 13
	CodeUnavailable       Code = 14
)

// Client reports whether an error with the code is one of the client. If a
// function of the app returns it, clients see it.
func (c Code) Client() bool {
	switch c {
	case CodeInvalidArgument, 5 /* NotFound */, 6 /* AlreadyExists */, 7 /* PermissionDenied */, CodeResourceExhausted,
		9 /* FailedPrecondition */, 10 /* Aborted */, 11 /* OutOfRange */, 16 /* Unauthenticated */ :
		return true
	}
	return false
}

// Refusal is the answer to an RPC that does not pass. It shows nothing that a
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

// Refusal describes how an RPC with the context ctx, which a does not let pass,
// is answered. Errors of the client are the protocol's own: it is not for these.
func (a *Admission) Refusal(ctx context.Context) Refusal {
	if a.Verdict != Denied {
		return a.Cause.Refusal(ctx)
	}
	r := Refusal{Code: CodeResourceExhausted, Message: "rate limit exceeded", RetryAfter: a.Result().RetryAfter, Limits: a.Problem().ViolatedPolicies}
	if r.RetryAfter == core.Never {
		r.Message = "the call asks for more than its rate limit can ever allow"
	}
	return r
}

// Refusal describes how an RPC with the context ctx is answered that has no
// decision.
func (c Cause) Refusal(ctx context.Context) Refusal {
	switch c {
	case NoKey:
		return Refusal{Code: CodeInvalidArgument, Message: "the call has no usable key for its rate limit"}
	case Unavailable:
		return Refusal{Code: CodeUnavailable, Message: "the rate limit can't be checked at the moment", RetryAfter: storeRetry}
	case Ended:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return Refusal{Code: CodeDeadlineExceeded, Message: context.DeadlineExceeded.Error()}
		}
		return Refusal{Code: CodeCanceled, Message: context.Canceled.Error()}
	}
	return Refusal{Code: CodeInternal, Message: "the rate limit can't be checked"}
}

// LacksTokens describes a limit that lacks tokens, for people who read a
// refusal's details.
func LacksTokens(limit string) string {
	return "the limit " + strconv.Quote(limit) + " has too few tokens left"
}

// ServiceOf returns the service of a full method, such as files.v1.Files of
// /files.v1.Files/Read. It is "" if there is none. As servers route it, the
// method is what follows the last slash.
func ServiceOf(method string) string {
	method = strings.TrimPrefix(method, "/")
	return method[:max(0, strings.LastIndexByte(method, '/'))]
}

// HealthOrReflection reports whether a full method is one of health checks or
// reflection.
func HealthOrReflection(method string) bool {
	switch ServiceOf(method) {
	case "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection":
		return true
	}
	return false
}
