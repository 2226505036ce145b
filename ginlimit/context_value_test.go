package ginlimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

type userKey struct{}

// ByContextValue finds a value under a key of a custom type, in gin's context
// and in the request's.
func TestByContextValueFindsKeysOfCustomTypes(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	for _, place := range []struct {
		name  string
		leave func(c *gin.Context, user string) bool
	}{
		{"gin's context", func(c *gin.Context, user string) bool { return set(c, (*gin.Context).Set, userKey{}, user) }},
		{"the request's context", func(c *gin.Context, user string) bool {
			c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), userKey{}, user))
			return true
		}},
	} {
		t.Run(place.name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(1)}}))
			r := gin.New()
			possible := true
			r.Use(func(c *gin.Context) { possible = place.leave(c, c.GetHeader("User")) }, ginlimit.New(limiter, ginlimit.ByContextValue(userKey{})))
			r.GET("/", func(c *gin.Context) { c.Status(http.StatusOK) })
			for _, want := range []struct {
				user   string
				status int
			}{{"ann", 200}, {"bob", 200}, {"ann", 429}} {
				req := httptest.NewRequest(http.MethodGet, "/", nil)
				req.Header.Set("User", want.user)
				w := httptest.NewRecorder()
				r.ServeHTTP(w, req)
				if !possible {
					t.Skip("this gin has keys of type string only")
				}
				if w.Code != want.status {
					t.Errorf("%s got %d, want %d", want.user, w.Code, want.status)
				}
			}
		})
	}
}

// set stores a value by method, which is c.Set, and reports whether this
// version of gin has keys of this type. Before gin v1.11 a key is a string.
func set[K any](c *gin.Context, method func(*gin.Context, K, any), key, value any) bool {
	k, ok := key.(K)
	if ok {
		method(c, k, value)
	}
	return ok
}
