package migration

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/httprate"
)

// HTTPRateBefore limits each client to 10 requests a minute on each path.
func HTTPRateBefore(r chi.Router) {
	byIP := func(r *http.Request) (string, error) {
		return httprate.CanonicalizeIP(middleware.GetClientIP(r.Context())), nil
	}
	r.Use(middleware.ClientIPFromXFF("10.0.0.7/32"))
	r.Use(httprate.LimitBy(10, time.Minute, httprate.JoinKeys(byIP, httprate.KeyByEndpoint)))
}
