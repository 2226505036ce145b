package core_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// loggedKey denies a request of key, and returns what the log shows of the key.
func loggedKey(t *testing.T, key string, options ...core.LimiterOption) string {
	t.Helper()
	var lines bytes.Buffer
	options = append(options, core.WithLogger(slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	l, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}, options...)
	require.NoError(t, err)
	for range 2 {
		_, err := l.Allow(t.Context(), key)
		require.NoError(t, err)
	}
	found := regexp.MustCompile(`key=([0-9a-f]{12}) `).FindStringSubmatch(lines.String())
	require.NotNil(t, found, lines.String())
	return found[1]
}

// Who has the log but not the secret can't find an address by trying all.
func TestLoggedKeysAreHashedByASecret(t *testing.T) {
	const key = "ip:192.0.2.1"
	plain := sha256.Sum256([]byte(key))
	logged := loggedKey(t, key)
	assert.NotEqual(t, hex.EncodeToString(plain[:6]), logged, "a hash without a secret can be tried")
	assert.Equal(t, logged, loggedKey(t, key), "limiters of one process hash alike")
	assert.NotEqual(t, logged, loggedKey(t, "ip:192.0.2.2"))

	secret := []byte("sixteen bytes...")
	given := loggedKey(t, key, core.WithKeySecret(secret))
	assert.NotEqual(t, logged, given)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(key))
	assert.Equal(t, hex.EncodeToString(mac.Sum(nil))[:12], given, "with the secret anybody can compute it: HMAC-SHA256, 12 hex digits")

	option := core.WithKeySecret(secret)
	secret[0]++
	assert.Equal(t, given, loggedKey(t, key, option), "the option keeps a copy of the secret")
}

func TestShortSecretsAreRefused(t *testing.T) {
	for _, secret := range [][]byte{nil, {}, []byte("password")} {
		_, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}, core.WithKeySecret(secret))
		require.Error(t, err)
		assert.Contains(t, err.Error(), "must be at least 16 bytes (RL318)")
		assert.False(t, len(secret) > 0 && strings.Contains(err.Error(), string(secret)), "the error does not show the secret")
	}
}

// An operator finds a client's lines by what LogKey returns.
func TestLogKeyIsWhatTheLogShows(t *testing.T) {
	secret := []byte("of every replica: random bytes")
	for _, options := range [][]core.LimiterOption{nil, {core.WithKeySecret(secret)}} {
		l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}, options...))
		assert.Equal(t, loggedKey(t, "ip:192.0.2.1", options...), l.LogKey("ip:192.0.2.1"), "without a secret it is that of the process")
	}
}
