package rpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/core/middleware/rpc"
)

func TestRefusalsAsJSONAndAsSentences(t *testing.T) {
	one, two := []string{"tools"}, []string{"burst", `a"day`}
	for _, test := range []struct {
		name     string
		refusal  rpc.Refusal
		code     int
		data     string
		sentence string
	}{
		{"a denial", rpc.Refusal{Code: rpc.ResourceExhausted, Limits: one, RetryAfter: 90 * time.Second}, rpc.JSONLimited,
			`{"retryAfter":90,"limit":"tools"}`, `The rate limit "tools" is exceeded. Try again in 90 seconds.`},
		{"waits are rounded up", rpc.Refusal{Code: rpc.ResourceExhausted, Limits: one, RetryAfter: 1500100 * time.Nanosecond}, rpc.JSONLimited,
			`{"retryAfter":0.002,"limit":"tools"}`, `The rate limit "tools" is exceeded. Try again in 1 second.`},
		{"several limits", rpc.Refusal{Code: rpc.ResourceExhausted, Limits: two, RetryAfter: time.Second + 1}, rpc.JSONLimited,
			`{"retryAfter":1.001,"limit":"burst","limits":["burst","a\"day"]}`, `The rate limit "burst", "a\"day" is exceeded. Try again in 2 seconds.`},
		{"no wait helps", rpc.Refusal{Code: rpc.ResourceExhausted, Limits: one, RetryAfter: core.Never}, rpc.JSONLimited,
			`{"limit":"tools"}`, `This call asks for more than the rate limit "tools" can ever allow. Do not repeat it.`},
		{"no wait is known", rpc.Refusal{Code: rpc.ResourceExhausted, Limits: one}, rpc.JSONLimited,
			`{"limit":"tools"}`, `The rate limit "tools" is exceeded. Try again later.`},
		{"no store", rpc.Fail(t.Context(), middleware.Unavailable), rpc.JSONUnavailable,
			`{"retryAfter":1}`, `The rate limit can't be checked at the moment. Try again in 1 second.`},
		{"no key", rpc.Fail(t.Context(), middleware.NoKey), rpc.JSONInvalidParams, "", "The call has no usable key for its rate limit."},
		{"a fault of the service", rpc.Fail(t.Context(), middleware.Internal), rpc.JSONInternal, "", "The rate limit can't be checked."},
	} {
		assert.Equal(t, test.code, test.refusal.JSONCode(), "%s: the code", test.name)
		assert.Equal(t, test.data, string(test.refusal.JSONData()), "%s: the data", test.name)
		assert.Equal(t, test.sentence, test.refusal.Sentence(), "%s: what a model reads", test.name)
	}
}
