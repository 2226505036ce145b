package migration_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// served counts the answers to requests by their status.
type served struct {
	statuses map[int]int
	last     *httptest.ResponseRecorder
}

// serve sends n requests to h, one after another.
func serve(h http.Handler, n int, request func() *http.Request) served {
	s := served{statuses: make(map[int]int)}
	for range n {
		s.last = httptest.NewRecorder()
		h.ServeHTTP(s.last, request())
		s.statuses[s.last.Code]++
	}
	return s
}

// request returns a function that makes requests of one client with header fields given as name, value.
func request(method, path, peer string, fields ...string) func() *http.Request {
	return func() *http.Request {
		r := httptest.NewRequest(method, path, nil)
		r.RemoteAddr = net.JoinHostPort(strings.Trim(peer, "[]"), "1234")
		for i := 0; i < len(fields); i += 2 {
			r.Header.Set(fields[i], fields[i+1])
		}
		return r
	}
}

// has requires a response to have the fields.
func has(t *testing.T, s served, fields ...string) {
	t.Helper()
	for _, name := range fields {
		require.NotEmpty(t, s.last.Header().Get(name), "the response has no %s: %v", name, s.last.Header())
	}
}

// lacks requires a response not to have the fields.
func lacks(t *testing.T, s served, fields ...string) {
	t.Helper()
	for _, name := range fields {
		require.Empty(t, s.last.Header().Get(name), "the response has %s", name)
	}
}

// ok answers every request with 200.
var ok = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
