package limittest

import (
	"context"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Limiter returns a limiter that fails closed, so that the test sees errors of
// the store.
func Limiter(t testing.TB, s core.Store, policy string, limits ...core.Limit) *core.Limiter {
	t.Helper()
	l, err := core.NewLimiter(s, core.Policy{Name: policy, Limits: limits, OnFailure: core.FailClosed})
	if err != nil {
		t.Fatalf("NewLimiter: %v", err)
	}
	return l
}

// Left returns how many tokens the tightest limit of key has.
func Left(t testing.TB, l *core.Limiter, key string) int64 {
	t.Helper()
	res, err := l.Peek(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return res.Remaining
}

// ComesBack waits until key has n tokens or slots: they come without a round
// trip that anybody waits for.
func ComesBack(t testing.TB, l *core.Limiter, key string, n int64, rule string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); Left(t, l, key) != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: %q has %d, want %d", rule, key, Left(t, l, key), n)
		}
	}
}

// Use takes n tokens of key, and fails the test if they are denied.
func Use(t testing.TB, l *core.Limiter, key string, n int64) {
	t.Helper()
	if res, err := l.AllowN(context.Background(), key, n); err != nil || !res.Allowed {
		t.Fatalf("AllowN(%q, %d): allowed %v, %v", key, n, res.Allowed, err)
	}
}
