package adapter

import (
	"fmt"
	"log/slog"

	"github.com/tokenbucket-go/ratelimit/core"
)

// CostByContentLength is a cost by the size of a request's body: a token for each bytesPerToken that its
// Content-Length tells, begun ones included, and at least one. A body of unknown length (chunked) costs the
// whole Capacity, or what unknown says: never nothing, since it may be of any size.
func CostByContentLength(bytesPerToken int64, unknown ...int64) func(Exchange) (int64, error) {
	var mistake error
	switch {
	case bytesPerToken < 1:
		mistake = fmt.Errorf("ratelimit: CostByContentLength: %d bytes a token: must be at least 1", bytesPerToken)
	case len(unknown) > 1:
		mistake = fmt.Errorf("ratelimit: CostByContentLength: %d costs of an unknown length: one is enough", len(unknown))
	case len(unknown) == 1 && unknown[0] < 1:
		mistake = fmt.Errorf("ratelimit: CostByContentLength: an unknown length costs %d: must be at least 1", unknown[0])
	}
	if mistake != nil {
		slog.Error("ratelimit: bad cost function, every request will be refused", "error", mistake)
		return func(Exchange) (int64, error) { return 0, mistake }
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
