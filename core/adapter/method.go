package adapter

import (
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
)

// otherMethods is the key of every method that ByMethod does not know. No method that it knows is so spelled.
const otherMethods = "other"

// ByMethod limits by the request's method: one of RFC 9110, section 9.3, or PATCH. Clients can invent others,
// which share one key.
func ByMethod() KeyFunc {
	return func(x Exchange) (string, error) {
		switch method := x.Method(); method {
		case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete,
			http.MethodConnect, http.MethodOptions, http.MethodTrace, http.MethodPatch:
			return core.JoinKey("method", method), nil
		}
		return core.JoinKey("method", otherMethods), nil
	}
}
