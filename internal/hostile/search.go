package hostile

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
)

// search is a request of the examples that show each framework.
func search(key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/search", strings.NewReader(`{"text": "tea"}`))
	r.Header.Set("X-Api-Key", key)
	return r
}

// RunSearch is Run for an example that shows a framework, of which start makes
// the server.
func RunSearch(t *testing.T, start func(store core.Store) Server) {
	Run(t, func(_ *testing.T, store core.Store) App {
		return App{Server: start(store), Request: search, Attacker: "ann-secret", Victim: "bob-secret", PerKey: 10, PerAddress: 100}
	})
}

// DeploySearch is Deploy for such an example.
func DeploySearch(t *testing.T) { Deploy(t, func() *http.Request { return search("ann-secret") }) }
