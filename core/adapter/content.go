package adapter

import (
	"errors"

	"github.com/tokenbucket-go/ratelimit/core"
)

// CostByContentLength is a cost by the size of a request's body: a token for each bytesPerToken that its
// Content-Length tells, begun ones included, and at least one. A body of unknown length (chunked) costs the
// whole Capacity, or what unknown says: never nothing, since it may be of any size. Numbers below 1 make New panic.
func CostByContentLength(bytesPerToken int64, unknown ...int64) func(Exchange) (int64, error) {
	var errs []error
	if bytesPerToken < 1 {
		errs = append(errs, &core.ConfigError{Field: "CostByContentLength bytesPerToken", Value: bytesPerToken, Reason: "must be at least 1"})
	}
	if len(unknown) > 1 {
		errs = append(errs, &core.ConfigError{Field: "CostByContentLength unknown", Value: unknown, Reason: "must be one cost: give the first alone"})
	} else if len(unknown) == 1 && unknown[0] < 1 {
		errs = append(errs, &core.ConfigError{Field: "CostByContentLength unknown", Value: unknown[0], Reason: "must be at least 1"})
	}
	if err := errors.Join(errs...); err != nil {
		return broken[Exchange, int64](err)
	}
	return func(x Exchange) (int64, error) {
		switch length := x.ContentLength(); {
		case length >= 0:
			return max(1, (length-1)/bytesPerToken+1), nil
		case len(unknown) == 1:
			return unknown[0], nil
		}
		return 0, core.ErrUnknownCost
	}
}
