package peers

import (
	"fmt"
	"net/http"
)

// Middleware is a web framework's way to serve a request, with or without a limiter before it.
type Middleware struct {
	Name   string
	Sends  string // a header field that proves the limiter's work; "" when it sends none
	Worker func() func(i int) error
}

// Without is the name of the framework alone, which others are compared with.
const Without = "without a limiter"

// This library with fewer header fields than it sends by default, to compare it with peers that send as few.
const (
	LegacyFields = Library + " (X-RateLimit-* only)"
	IETFFields   = Library + " (RateLimit fields only)"
)

// Framework is a framework with the limiters made for it: first Without, then this library, with
// the header fields of its peers too, then peers.
type Framework struct {
	Name        string
	Middlewares []Middleware
}

// clients is how many addresses requests come from.
const clients = 1000

// address is the peer of request i.
func address(i int) string { return fmt.Sprintf("192.0.%d.%d:40000", i/250, i%250+1) }

const path = "/items/42"

// serve makes a worker that has a handler serve requests, in process, with a response it reuses.
func serve(h http.Handler, sends string) func() func(int) error {
	return func() func(int) error {
		requests := make([]*http.Request, clients)
		for i := range requests {
			r, err := http.NewRequest(http.MethodGet, "http://localhost"+path, nil)
			if err != nil {
				panic(err)
			}
			r.RemoteAddr = address(i)
			r.RequestURI = path
			r.Header.Set("User-Agent", "benchmark")
			requests[i] = r
		}
		w := &response{header: make(http.Header)}
		return func(i int) error {
			w.status = 0
			clear(w.header)
			h.ServeHTTP(w, requests[i%clients])
			if w.status != http.StatusOK || sends != "" && len(w.header[sends]) == 0 {
				return fmt.Errorf("answered %d with header %v", w.status, w.header)
			}
			return nil
		}
	}
}

// response forgets its body.
type response struct {
	header http.Header
	status int
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(p), nil
}

// WriteString spares frameworks a copy, as that of net/http does.
func (w *response) WriteString(s string) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(s), nil
}
