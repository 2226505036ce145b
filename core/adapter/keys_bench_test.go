package adapter_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// What it costs to make a key.
func BenchmarkKeys(b *testing.B) {
	type user struct{}
	r := httptest.NewRequest(http.MethodGet, "/items/7?q=red", nil)
	r.Pattern = "/items/{id}"
	r.Header = http.Header{
		"X-Api-Key": {"k-0123456789abcdef"}, "Token": {"100% a:b|c"}, "Long": {strings.Repeat("x", 1000)},
		"Cookie": {"session=0123456789abcdef"},
	}
	r = r.WithContext(context.WithValue(r.Context(), user{}, "ann"))
	var x adapter.Request = &request{r: r}
	for _, c := range []struct {
		name string
		key  adapter.KeyFunc
	}{
		{"ByIP", adapter.ByIP()},
		{"ByHeader", adapter.ByHeader("X-Api-Key")},
		{"ByHeader, encoded", adapter.ByHeader("Token")},
		{"ByHeader, hashed", adapter.ByHeader("Long")},
		{"ByCookie", adapter.ByCookie("session")},
		{"ByContextValue", adapter.ByContextValue(user{})},
		{"ByPath", adapter.ByPath()},
		{"ByRoute", adapter.ByRoute("")},
		{"Join", middleware.Join[adapter.Request](adapter.ByRoute(""), adapter.ByHeader("X-Api-Key"))},
		{"Join of an encoded key", middleware.Join[adapter.Request](adapter.ByRoute(""), adapter.ByHeader("Token"))},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if key, err := c.key(x); key == "" || err != nil {
					b.Fatal(key, err)
				}
			}
		})
	}
}
