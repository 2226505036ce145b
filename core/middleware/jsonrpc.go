package middleware

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// The codes of JSON-RPC errors that limiters answer with. The first two are
// those of HTTP's statuses. They are outside the range that JSON-RPC reserves,
// -32768 to -32000, because the Model Context Protocol of 2026-07-28 reserves
// -32020 to -32099 for itself, and allows no new codes in -32000 to -32019.
const (
	JSONLimited       = 429
	JSONUnavailable   = 503
	JSONInvalidParams = -32602
	JSONInternal      = -32603
)

// JSONCode returns the code of a JSON-RPC error for the refusal.
func (r Refusal) JSONCode() int {
	switch r.Code {
	case CodeResourceExhausted:
		return JSONLimited
	case CodeUnavailable:
		return JSONUnavailable
	case CodeInvalidArgument:
		return JSONInvalidParams
	}
	return JSONInternal
}

// JSONData returns the data of a JSON-RPC error for the refusal: retryAfter, in
// seconds, is missing if no wait helps or none is known, limit is the first
// limit that lacks tokens, and limits are all of them if there are several. It
// returns nil if there is nothing to say.
func (r Refusal) JSONData() json.RawMessage {
	var data struct {
		RetryAfter float64  `json:"retryAfter,omitempty"`
		Limit      string   `json:"limit,omitempty"`
		Limits     []string `json:"limits,omitempty"`
	}
	if r.waits() {
		data.RetryAfter = math.Ceil(float64(r.RetryAfter)/float64(time.Millisecond)) / 1000 // rounded up to milliseconds
	}
	switch {
	case len(r.Limits) > 1:
		data.Limits = r.Limits
		fallthrough
	case len(r.Limits) == 1:
		data.Limit = r.Limits[0]
	case data.RetryAfter == 0:
		return nil
	}
	text, _ := json.Marshal(data) // strings and a finite number always have JSON
	return text
}

// Sentence describes the refusal for a language model: which limit refused the
// call, and whether and when to repeat it.
func (r Refusal) Sentence() string {
	names := make([]string, len(r.Limits))
	for i, limit := range r.Limits {
		names[i] = strconv.Quote(limit)
	}
	limits := strings.TrimSpace("rate limit " + strings.Join(names, ", "))
	switch {
	case r.Code == CodeResourceExhausted && r.RetryAfter == core.Never:
		return "This call asks for more than the " + limits + " can ever allow. Do not repeat it."
	case r.Code == CodeResourceExhausted && !r.waits():
		return "The " + limits + " is exceeded. Try again later."
	case r.Code == CodeResourceExhausted:
		return "The " + limits + " is exceeded. Try again in " + r.seconds() + "."
	case r.waits():
		return "The rate limit can't be checked at the moment. Try again in " + r.seconds() + "."
	}
	return strings.ToUpper(r.Message[:1]) + r.Message[1:] + "."
}

// waits reports whether it is known for how long to wait.
func (r Refusal) waits() bool { return r.RetryAfter > 0 && r.RetryAfter != core.Never }

// seconds returns RetryAfter as whole seconds, rounded up.
func (r Refusal) seconds() string {
	if s := int64((r.RetryAfter + time.Second - 1) / time.Second); s != 1 {
		return strconv.FormatInt(s, 10) + " seconds"
	}
	return "1 second"
}
