package ginlimit_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// ByContextValue finds a value under a key of a custom type, in gin's context
// and in the request's.
func TestByContextValueFindsKeysOfCustomTypes(t *testing.T) {
	type userKey struct{}
	for place, leave := range map[string]func(c *gin.Context, user string) (possible bool){
		"gin's context": func(c *gin.Context, user string) bool { return set(c, (*gin.Context).Set, userKey{}, user) },
		"the request's context": func(c *gin.Context, user string) bool {
			c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), userKey{}, user))
			return true
		},
	} {
		possible := true
		r := gin.New()
		r.Use(func(c *gin.Context) { possible = leave(c, c.GetHeader("User")) },
			ginlimit.New(limittest.Limiter(t, core.NewMemoryStore(), "test", core.PerDay(1)), ginlimit.ByContextValue(userKey{})))
		r.GET("/", func(c *gin.Context) { c.Status(http.StatusOK) })
		for _, want := range []struct {
			user   string
			status int
		}{{"ann", 200}, {"bob", 200}, {"ann", 429}} {
			if got := send(r, "GET", "/", http.Header{"User": {want.user}}).Code; possible {
				assert.Equal(t, want.status, got, "%s, %s", place, want.user)
			}
		}
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
