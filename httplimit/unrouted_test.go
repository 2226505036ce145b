package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// The suite shows that ByRoute in front of a mux warns.
func TestKeysThatKnowTheRouteDoNotWarn(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/items/{id}", func(http.ResponseWriter, *http.Request) {})
	for name, key := range map[string]httplimit.KeyFunc{
		"ByRouteOf":             httplimit.ByRouteOf(mux),
		"ByRoute is not called": httplimit.FirstOf(httplimit.ByIP(), httplimit.ByRoute()),
	} {
		handler := httplimit.New(limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerMinute(100)), key)(mux)
		assert.Empty(t, logtest.Capture(func() {
			for _, path := range []string{"/nowhere", "/items/1", "/items/2"} {
				send(handler, "GET", path, nil)
			}
		}), name)
	}
}

func TestByRouteOfANilMuxPanics(t *testing.T) {
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerMinute(100))
	defer func() {
		err, _ := recover().(error)
		assert.ErrorContains(t, err, "ByRouteOf mux: <nil> must be the mux")
	}()
	httplimit.New(limiter, httplimit.ByRouteOf(nil))
}
