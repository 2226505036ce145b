package adaptertest

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// CheckAllow checks an adapter's Allow. login returns an app with one handler, which calls Allow with the limiter and the key
// LoginKey(user), where user is the query's. If that is allowed it answers with 204, and for the user "ann" it undoes the Result first.
// The app is sent requests by do.
func CheckAllow(t *testing.T, login func(limiter *core.Limiter) (do func(user string) *http.Response)) {
	t.Helper()
	policy := core.Policy{Name: "login", Limits: []core.Limit{core.PerHour(2)}, OnFailure: core.FailClosed}
	do := login(core.Must(core.NewLimiter(core.NewMemoryStore(), policy)))
	for _, want := range []int{http.StatusNoContent, http.StatusNoContent, http.StatusTooManyRequests} {
		res := do("bob")
		assert.Equal(t, want, res.StatusCode, "two tokens an hour")
		assert.NotEmpty(t, res.Header.Get("RateLimit"), "the header fields are set, also within a handler")
		assert.Equal(t, want == http.StatusTooManyRequests, res.Header.Get("Retry-After") != "", "a denial says when to retry")
	}
	assert.Equal(t, http.StatusNoContent, do("eve").StatusCode, "another key has its own bucket")
	for range 5 {
		assert.Equal(t, http.StatusNoContent, do("ann").StatusCode, "the Result that Allow returns can be undone")
	}
	lines := logtest.Default(t)
	for range 3 {
		assert.Equal(t, http.StatusBadRequest, do("").StatusCode, "a request without a key")
	}
	assert.LessOrEqual(t, lines.Count("RL707"), 1, "clients without a key fill no log: %s", lines)
	closed := login(core.Must(core.NewLimiter(awayStore{}, policy)))
	assert.Equal(t, http.StatusServiceUnavailable, closed("bob").StatusCode, "no decision, under FailClosed")
	policy.Shadow = true
	shadow := login(core.Must(core.NewLimiter(core.NewMemoryStore(), policy)))
	for range 4 {
		require.Equal(t, http.StatusNoContent, shadow("bob").StatusCode, "shadow mode denies nothing")
	}
}

// LoginKey is the key of a user, or "" without one.
func LoginKey(user string) string {
	if user == "" {
		return ""
	}
	return core.JoinKey("user", user)
}

// awayStore never answers.
type awayStore struct{}

func (awayStore) Do(context.Context, store.Request) (store.Answer, error) {
	return store.Answer{}, errors.New("away")
}

func (awayStore) Reset(context.Context, string, string) error { return errors.New("away") }
