package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

func TestAllowWithinAHandler(t *testing.T) {
	adaptertest.CheckAllow(t, func(limiter *core.Limiter) func(string) *http.Response {
		return func(user string) *http.Response {
			rec := httptest.NewRecorder()
			login := func(w http.ResponseWriter, r *http.Request) {
				res, ok := httplimit.Allow(w, r, limiter, adaptertest.LoginKey(user))
				if !ok {
					return
				}
				if user == "ann" {
					_ = res.Undo(r.Context())
				}
				w.WriteHeader(http.StatusNoContent)
			}
			login(rec, httptest.NewRequest(http.MethodPost, "/login", nil))
			return rec.Result()
		}
	})
}
