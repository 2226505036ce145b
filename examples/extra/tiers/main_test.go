package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func start(t *testing.T) (*users, *clock, func(method, target, apiKey string) *httptest.ResponseRecorder) {
	t.Helper()
	db, err := openDB(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	clock := &clock{t: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	users := newUsers(db)
	users.now = clock.now
	server := newServer(core.NewMemoryStore(core.WithClock(clock.now)), users)
	return users, clock, func(method, target, apiKey string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, target, nil)
		r.Header.Set("X-Api-Key", apiKey)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		return w
	}
}

func TestEachPlanHasItsLimits(t *testing.T) {
	_, _, do := start(t)
	for apiKey, want := range map[string]int{"ann-key": 5, "bob-key": 20, "cid-key": 2} {
		allowed := 0
		for do("GET", "/reports", apiKey).Code == http.StatusOK {
			allowed++
		}
		if allowed != want {
			t.Errorf("%s: %d requests at once were allowed, want %d", apiKey, allowed, want)
		}
	}
	policy := do("GET", "/reports", "bob-key").Header().Get("RateLimit-Policy")
	if !strings.Contains(policy, "q=20;w=20") || !strings.Contains(policy, "q=10000;w=86400") {
		t.Errorf("RateLimit-Policy %q does not show the pro plan", policy)
	}
}

func TestUnknownKeysAreNobody(t *testing.T) {
	_, _, do := start(t)
	for _, apiKey := range []string{"eve-key", ""} {
		if code := do("GET", "/reports", apiKey).Code; code != http.StatusUnauthorized {
			t.Errorf("key %q: status %d, want 401", apiKey, code)
		}
	}
}

func TestAnUpgradeHoldsAtOnceAndIsNoRefill(t *testing.T) {
	_, clock, do := start(t)
	for range 5 {
		do("GET", "/reports", "ann-key")
	}
	if code := do("POST", "/plan?name=gold", "ann-key").Code; code != http.StatusBadRequest {
		t.Errorf("an unknown plan: status %d, want 400", code)
	}
	if code := do("POST", "/plan?name=pro", "ann-key").Code; code != http.StatusNoContent {
		t.Fatalf("the upgrade: status %d, want 204", code)
	}
	for range 15 { // of 20
		if code := do("GET", "/reports", "ann-key").Code; code != http.StatusOK {
			t.Errorf("just after the upgrade: status %d, want 200: what the plan adds is there at once", code)
		}
	}
	if code := do("GET", "/reports", "ann-key").Code; code != http.StatusTooManyRequests {
		t.Errorf("after 15 of 20: status %d, want 429: tokens that are used stay used", code)
	}
	clock.advance(time.Second) // pro earns a token a second, free one in 12
	if code := do("GET", "/reports", "ann-key").Code; code != http.StatusOK {
		t.Errorf("a second after the upgrade: status %d, want 200", code)
	}
}

func TestAPlanIsReadOnceInTTL(t *testing.T) {
	users, clock, do := start(t)
	policy := func() string { return do("GET", "/reports", "ann-key").Header().Get("RateLimit-Policy") }
	before := policy()
	if _, err := users.db.Exec(`UPDATE users SET plan = 'pro' WHERE name = 'ann'`); err != nil { // by another replica
		t.Fatal(err)
	}
	clock.advance(users.ttl - 1)
	if got := policy(); got != before {
		t.Errorf("within the TTL the plan was read again: %q, was %q", got, before)
	}
	clock.advance(1)
	if got := policy(); got == before {
		t.Errorf("after the TTL the old plan still holds: %q", got)
	}
}

func TestAKnownUserIsServedWhileTheDatabaseIsAway(t *testing.T) {
	users, clock, do := start(t)
	do("GET", "/reports", "ann-key")
	users.db.Close()
	clock.advance(time.Hour)
	if code := do("GET", "/reports", "ann-key").Code; code != http.StatusOK {
		t.Errorf("a known user: status %d, want 200", code)
	}
	if code := do("GET", "/reports", "bob-key").Code; code != http.StatusServiceUnavailable {
		t.Errorf("a user not seen before: status %d, want 503", code)
	}
}
