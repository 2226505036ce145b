package series

import "github.com/tokenbucket-go/ratelimit/core"

// Tokens is what a decision adds to the tokens that buckets were asked for: its cost, and no more than it
// could have been granted. A cost may be what a client wrote, such as a Content-Length: one of 2^63-1 would
// wrap an integer counter, and a float64 would count nothing after it.
func Tokens(o *core.Observation) int64 { return max(0, min(o.Cost, o.Capacity)) }
