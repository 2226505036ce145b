package middleware

import (
	"context"
	"math"
	"strconv"
	"time"
)

// PushbackField is the trailer that tells gRPC clients when to retry (gRFC A6).
const PushbackField = "grpc-retry-pushback-ms"

// Pushback returns the value of PushbackField: whole milliseconds, rounded up.
// A negative one says not to retry: if no wait is long enough, or the call's
// deadline comes first, which would then hide the denial.
func Pushback(ctx context.Context, after time.Duration) string {
	ms := after / time.Millisecond
	if after%time.Millisecond > 0 {
		ms++
	}
	if ms > math.MaxInt32 || endsBefore(ctx, after) { // clients in some languages read 32 bits
		return "-1"
	}
	return strconv.FormatInt(int64(ms), 10)
}

// endsBefore reports whether the deadline of ctx comes within d.
func endsBefore(ctx context.Context, d time.Duration) bool {
	deadline, limited := ctx.Deadline()
	return limited && time.Until(deadline) < d
}
