package middleware_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

func TestRefusalsAsJSONAndAsSentences(t *testing.T) {
	one, two := []string{"tools"}, []string{"burst", `a"day`}
	for _, test := range []struct {
		name     string
		refusal  middleware.Refusal
		code     int
		data     string
		sentence string
	}{
		{"a denial", middleware.Refusal{Code: middleware.CodeResourceExhausted, Limits: one, RetryAfter: 90 * time.Second}, middleware.JSONLimited,
			`{"retryAfter":90,"limit":"tools"}`, `The rate limit "tools" is exceeded. Try again in 90 seconds.`},
		{"waits are rounded up", middleware.Refusal{Code: middleware.CodeResourceExhausted, Limits: one, RetryAfter: 1500100 * time.Nanosecond}, middleware.JSONLimited,
			`{"retryAfter":0.002,"limit":"tools"}`, `The rate limit "tools" is exceeded. Try again in 1 second.`},
		{"several limits", middleware.Refusal{Code: middleware.CodeResourceExhausted, Limits: two, RetryAfter: time.Second + 1}, middleware.JSONLimited,
			`{"retryAfter":1.001,"limit":"burst","limits":["burst","a\"day"]}`, `The rate limit "burst", "a\"day" is exceeded. Try again in 2 seconds.`},
		{"no wait helps", middleware.Refusal{Code: middleware.CodeResourceExhausted, Limits: one, RetryAfter: core.Never}, middleware.JSONLimited,
			`{"limit":"tools"}`, `This call asks for more than the rate limit "tools" can ever allow. Do not repeat it.`},
		{"no wait is known", middleware.Refusal{Code: middleware.CodeResourceExhausted, Limits: one}, middleware.JSONLimited,
			`{"limit":"tools"}`, `The rate limit "tools" is exceeded. Try again later.`},
		{"no store", middleware.Unavailable.Refusal(t.Context()), middleware.JSONUnavailable,
			`{"retryAfter":1}`, `The rate limit can't be checked at the moment. Try again in 1 second.`},
		{"no key", middleware.NoKey.Refusal(t.Context()), middleware.JSONInvalidParams, "", "The call has no usable key for its rate limit."},
		{"a fault of the service", middleware.Internal.Refusal(t.Context()), middleware.JSONInternal, "", "The rate limit can't be checked."},
	} {
		assert.Equal(t, test.code, test.refusal.JSONCode(), "%s: the code", test.name)
		assert.Equal(t, test.data, string(test.refusal.JSONData()), "%s: the data", test.name)
		assert.Equal(t, test.sentence, test.refusal.Sentence(), "%s: what a model reads", test.name)
	}
}
