package redisstore_test

import (
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestOpenedStoreDecidesUntilItIsClosed(t *testing.T) {
	store, err := redisstore.Open("redis://"+redistest.Addr(t), redisstore.WithPrefix(redistest.Prefix()), longTimeout)
	if err != nil {
		t.Fatal(err)
	}
	l := limittest.Limiter(t, store, "api", core.PerMinute(2))
	if res, err := l.Allow(t.Context(), "k"); err != nil || res.Source != core.FromStore || res.Remaining != 1 {
		t.Errorf("decided by %v, %d left; want by the store, 1 left", res.Source, res.Remaining)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if res, err := l.Allow(t.Context(), "k"); err == nil && res.Source == core.FromStore {
		t.Error("a store that is closed decides")
	}
}

// go-redis panics for some options that a URL can set. A mistake in a
// configuration must not look like one in the program.
func TestOpenReportsOptionsThatNoClientCanHave(t *testing.T) {
	for _, option := range []string{"pool_size=-1", "pool_size=-9223372036854775808", "pool_size=9223372036854775807"} {
		store, err := redisstore.Open("redis://u:secret@localhost:6379?" + option)
		if err == nil { // a version of go-redis that bears it
			if err := store.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if store != nil || !strings.HasPrefix(err.Error(), "ratelimit: redisstore.Open url: ") || !strings.HasSuffix(err.Error(), "(RL302)") || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open with %s returns %v, %v; want an error that names the url, and no password", option, store, err)
		}
	}
}

func TestCloseLeavesACallersClientOpen(t *testing.T) {
	client := redistest.Client(t)
	if err := redisstore.New(client).Close(); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Error("Close closed the client of New:", err)
	}
}
