//go:build !js

package nethttp

import (
	"net/http"

	"github.com/felixge/httpsnoop"
)

// wrap returns w with hooks. The result implements the same optional interfaces
// as w.
func wrap(w http.ResponseWriter, hooks httpsnoop.Hooks) http.ResponseWriter {
	return httpsnoop.Wrap(w, hooks)
}
