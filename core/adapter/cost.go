package adapter

import (
	"errors"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// CostByContentLength returns a cost function: a request costs one token for every bytesPerToken bytes of its body,
// rounded up, and at least one. The size is that of its Content-Length. A body of unknown length (chunked) costs the
// whole Capacity, because it may have any size. If bytesPerToken is below 1, New panics.
func CostByContentLength(bytesPerToken int64) func(Request) (int64, error) {
	return costByContentLength("CostByContentLength", bytesPerToken, func() (int64, error) { return 0, core.ErrUnknownCost })
}

// CostByContentLengthOr is [CostByContentLength] with another cost for a body of unknown length: unknown tokens. If
// unknown is below 1, New panics.
func CostByContentLengthOr(bytesPerToken, unknown int64) func(Request) (int64, error) {
	const name = "CostByContentLengthOr"
	f := costByContentLength(name, bytesPerToken, func() (int64, error) { return unknown, nil })
	if unknown < 1 {
		wrong := &core.ConfigError{Field: name + " unknown", Value: unknown, Reason: "must be at least 1"}
		return middleware.Invalid[Request, int64](errors.Join(middleware.ArgumentError(f), wrong))
	}
	return f
}

// costByContentLength makes the cost function that the exported function name returns. unknown returns the cost of a
// body of unknown length.
func costByContentLength(name string, bytesPerToken int64, unknown func() (int64, error)) func(Request) (int64, error) {
	if bytesPerToken < 1 {
		return middleware.BadArgument[Request, int64](name+" bytesPerToken", bytesPerToken, "must be at least 1")
	}
	return func(x Request) (int64, error) {
		length := x.ContentLength()
		if length < 0 {
			return unknown()
		}
		return max(1, (length-1)/bytesPerToken+1), nil
	}
}
