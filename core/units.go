package core

import "github.com/tokenbucket-go/ratelimit/core/internal/quantity"

// Requests is the unit of limits that name none.
const Requests = quantity.Requests

// Units is what a request takes, by the unit: {"tokens": 1200} is 1 request and 1,200 tokens. A request counts as one unless
// Units says otherwise: {Requests: 0, "tokens": 1200} takes tokens alone. A unit takes its number from every limit that
// counts it. No unit has capitals.
type Units map[string]int64

// requests is how many requests u counts as.
func (u Units) requests() int64 {
	if n, given := u[Requests]; given {
		return n
	}
	return 1
}
