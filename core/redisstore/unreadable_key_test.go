package redisstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// spoil makes the key of the policy "api" and user "bad" unreadable.
func spoil(t *testing.T, client *redis.Client, key, how string) {
	t.Helper()
	ctx := t.Context()
	client.Del(ctx, key)
	var err error
	switch how {
	case "a list":
		err = client.RPush(ctx, key, "x").Err()
	case "a hash":
		err = client.HSet(ctx, key, "tokens", "1").Err()
	default:
		err = client.Set(ctx, key, how, 0).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestUnreadableKeyAffectsNoOtherKey(t *testing.T) {
	unreadableKeyAffectsNoOther(t, redistest.Client(t))
}

func TestUnreadableKeyOnMiniredisAffectsNoOtherKey(t *testing.T) {
	_, client := onMiniredis(t)
	unreadableKeyAffectsNoOther(t, client)
}

func unreadableKeyAffectsNoOther(t *testing.T, client *redis.Client) {
	t.Helper()
	for _, how := range []string{"a list", "a hash", "", "42", "17 bytes of text!", strings.Repeat("\xff", 17), strings.Repeat("\x00\x01\x7f\xf8", 17)} {
		for _, mode := range []core.FailureMode{core.FailLocal, core.FailOpen, core.FailClosed} {
			t.Run(how+"/"+mode.String(), func(t *testing.T) {
				prefix := redistest.Prefix()
				bad := prefix + "api:bad"
				l, err := core.NewLimiter(redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout), core.Policy{
					Name: "api", Limits: []core.Limit{core.PerDay(50)}, OnFailure: mode})
				if err != nil {
					t.Fatal(err)
				}
				limittest.Use(t, l, "good", 1)
				spoil(t, client, bad, how)
				before := client.Dump(t.Context(), bad).Val()
				for n := range 40 {
					res, err := l.Allow(t.Context(), "bad")
					cause := res.Cause
					switch mode {
					case core.FailClosed:
						cause = err
						if !errors.Is(err, core.ErrUnavailable) || res.Allowed {
							t.Fatalf("allowed %v, %v; want ErrUnavailable", res.Allowed, err)
						}
					case core.FailOpen:
						if err != nil || !res.Allowed || res.Source != core.FromFailOpen {
							t.Fatalf("allowed %v by %v, %v; want allowed by FailOpen", res.Allowed, res.Source, err)
						}
					case core.FailLocal:
						if err != nil || !res.Allowed || res.Source != core.FromFallback || res.Remaining != int64(49-n) {
							t.Fatalf("allowed %v by %v with %d left, %v; want allowed by the fallback with %d left", res.Allowed, res.Source, res.Remaining, err, 49-n)
						}
					}
					if state := (*store.StateError)(nil); !errors.As(cause, &state) {
						t.Fatalf("the cause is %v, want a StateError", cause)
					}
				}
				if after := client.Dump(t.Context(), bad).Val(); after != before || client.PTTL(t.Context(), bad).Val() != -1 {
					t.Errorf("the store must not change a key it can't read: %x became %x", before, after)
				}
				// The server works, so neither the breaker nor anything else
				// may keep other keys from it.
				if res, err := l.Allow(t.Context(), "good"); err != nil || res.Source != core.FromStore || res.Remaining != 48 {
					t.Errorf("another key is decided by %v with %d left, %v; want by the store with 48 left", res.Source, res.Remaining, err)
				}
				if err := l.Reset(t.Context(), "bad"); err != nil {
					t.Fatalf("Reset of an unreadable key: %v", err)
				}
				if res, err := l.Allow(t.Context(), "bad"); err != nil || res.Source != core.FromStore || res.Remaining != 49 {
					t.Errorf("after Reset the key is decided by %v with %d left, %v; want by the store with 49 left", res.Source, res.Remaining, err)
				}
			})
		}
	}
}
