package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/hostile"
)

func TestMain(m *testing.M) { hostile.Main(m, main) }

func none() core.LimiterOption { return core.WithObserver(nil) }

func request(key string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/reports", nil)
	r.Header.Set("X-Api-Key", key)
	return r
}

func TestAHostileClient(t *testing.T) {
	hostile.Run(t, func(t *testing.T, store core.Store) hostile.App {
		public, _ := app(store, none(), newCustomers(newDatabase()))
		return hostile.App{
			Server: newServer("", public), Request: request,
			Attacker: "ann-secret", Victim: "bob-secret", PerKey: 5, PerAddress: 100,
		}
	})
}

func TestDeploy(t *testing.T) {
	hostile.Deploy(t, func() *http.Request { return request("ann-secret") })
}

// serve returns a function that sends a request, with a store whose clock
// stands still.
func send(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func newStore() core.Store {
	now := time.Now()
	return core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
}

func TestEachCustomerHasTheLimitsOfThePlan(t *testing.T) {
	public, _ := app(newStore(), none(), newCustomers(newDatabase()))
	for key, want := range map[string]int{"ann-secret": 5, "bob-secret": 20, "cid-secret": 2, "made-up": 0} {
		passed := 0
		for range 25 {
			if send(public, request(key)).Code == http.StatusOK {
				passed++
			}
		}
		assert.Equal(t, want, passed, key)
	}
}

func TestAnUpgradeHoldsAtOnceAndKeepsWhatWasUsed(t *testing.T) {
	public, admin := app(newStore(), none(), newCustomers(newDatabase()))
	for range 5 {
		require.Equal(t, http.StatusOK, send(public, request("ann-secret")).Code)
	}
	require.Equal(t, http.StatusTooManyRequests, send(public, request("ann-secret")).Code)
	upgrade := func(path string) int { return send(admin, httptest.NewRequest(http.MethodPost, path, nil)).Code }
	assert.Equal(t, http.StatusBadRequest, upgrade("/customers/ann/plan?name=made-up"))
	assert.Equal(t, http.StatusNotFound, upgrade("/customers/eve/plan?name=pro"))
	require.Equal(t, http.StatusNoContent, upgrade("/customers/ann/plan?name=pro"))
	w := send(public, request("ann-secret"))
	require.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Header()["Ratelimit"][1], `"minute";r=14`, "of 20, 5 were used before, and this one")
}

func TestOperatorsAreOnAPortOfTheirOwn(t *testing.T) {
	public, admin := app(newStore(), none(), newCustomers(newDatabase()))
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodPost, "/customers/ann/plan?name=pro", nil), httptest.NewRequest(http.MethodGet, "/limits", nil), httptest.NewRequest(http.MethodGet, "/metrics", nil),
	} {
		assert.Equal(t, http.StatusNotFound, send(public, r).Code, r.URL.Path)
	}
	look := httptest.NewRequest(http.MethodGet, "http://localhost:8081/limits", nil)
	assert.Equal(t, http.StatusOK, send(admin, look).Code)
	byBrowser := httptest.NewRequest(http.MethodPost, "/customers/ann/plan?name=pro", nil)
	byBrowser.Header.Set("Sec-Fetch-Site", "cross-site")
	assert.Equal(t, http.StatusForbidden, send(admin, byBrowser).Code, "a page of another site, in an operator's browser")
}

func TestMadeUpKeysAreNotKept(t *testing.T) {
	d := newDatabase()
	c := newCustomers(d)
	for range 3 {
		_, err := c.find(t.Context(), keyHash{1})
		require.ErrorIs(t, err, errUnknown)
	}
	assert.Empty(t, c.cached)
}

func TestACustomerIsReadOnceInAWhile(t *testing.T) {
	d := newDatabase()
	public, _ := app(newStore(), none(), &customers{database: d, keep: time.Hour, cached: map[keyHash]cached{}})
	for range 5 {
		send(public, request("ann-secret"))
	}
	assert.Equal(t, 1, d.queries)
}
