package main

import (
	"bytes"
	"net/http"
)

// answer is an [http.ResponseWriter] that keeps what a handler writes.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// answerOf has a handler answer a request.
func answerOf(h http.Handler, r *http.Request) *answer {
	a := &answer{header: make(http.Header)}
	h.ServeHTTP(a, r)
	a.WriteHeader(http.StatusOK) // which a handler that writes nothing means
	return a
}

// sendTo sends the answer.
func (a *answer) sendTo(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes())
}
