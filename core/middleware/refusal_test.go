package middleware_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

func TestCodesOfTheClient(t *testing.T) {
	// By the numbers of gRPC: what a client did is the client's, and what the
	// service or the network did is not.
	client := map[middleware.Code]bool{3: true, 5: true, 6: true, 7: true, 8: true, 9: true, 10: true, 11: true, 16: true}
	for code := range middleware.Code(20) {
		assert.Equal(t, client[code], code.Client(), "code %d", code)
	}
}

func TestRefusalsOfEndedContexts(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	assert.Equal(t, middleware.CodeCanceled, middleware.Ended.Refusal(canceled).Code)
	assert.Equal(t, middleware.CodeDeadlineExceeded, middleware.Ended.Refusal(late).Code)
}

func TestDetailsNameTheLimit(t *testing.T) {
	assert.Equal(t, `the limit "a \"b\"" has too few tokens left`, middleware.LacksTokens(`a "b"`))
}

func TestWhatIsHealthOrReflection(t *testing.T) {
	for method, want := range map[string]bool{
		"/grpc.health.v1.Health/Check":                                   true,
		"/grpc.health.v1.Health/Watch":                                   true,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
		"/grpc.health.v1.Health/x/Check":                                 false,
		"/grpc.health.v1.Healthy/Check":                                  false,
		"/x/grpc.health.v1.Health/Check":                                 false,
		"":                                                               false,
	} {
		assert.Equal(t, want, middleware.HealthOrReflection(method), method)
	}
}

func TestPushbackIsMillisecondsRoundedUp(t *testing.T) {
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, test := range []struct {
		ctx   context.Context
		after time.Duration
		want  string
	}{
		{t.Context(), time.Nanosecond, "1"},
		{t.Context(), time.Millisecond, "1"},
		{t.Context(), time.Millisecond + 1, "2"},
		{t.Context(), 24 * time.Hour, "86400000"},
		{t.Context(), 25 * 24 * time.Hour, "-1"}, // beyond 32 bits
		{t.Context(), core.Never, "-1"},
		{soon, time.Second, "1000"},
		{soon, time.Hour, "-1"}, // the deadline comes first
	} {
		assert.Equal(t, test.want, middleware.Pushback(test.ctx, test.after), test.after)
	}
}
