package adaptertest

import (
	"io"
	"net/http"
)

// Send does what r asks of a handler on net/http besides answering, and reports whether it is to answer in the
// framework's way. It panics if r says so.
func (r Reply) Send(w http.ResponseWriter) (answer bool) {
	switch {
	case r.Aborts:
		w.WriteHeader(r.Status)
		_, _ = io.WriteString(w, "begun")
	case !r.Flushes:
		return true
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		panic(err)
	}
	panic(http.ErrAbortHandler)
}
