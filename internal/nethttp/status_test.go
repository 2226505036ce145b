package nethttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// However a handler answers, Refund gets the status that the client gets.
func TestRefundGetsTheStatusThatTheClientGets(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"nothing written": func(http.ResponseWriter, *http.Request) {},
		"a body alone":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") },
		"a body copied":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("ok")) },
		"a body that can't be read, then an error": func(w http.ResponseWriter, _ *http.Request) {
			if _, err := io.Copy(w, iotest.ErrReader(io.ErrUnexpectedEOF)); err != nil {
				http.Error(w, "no", http.StatusUnauthorized)
			}
		},
		"a status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"two statuses": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			w.WriteHeader(http.StatusOK)
		},
		"early hints, then a status": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusUnauthorized)
		},
		"flushed, then an error": func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			http.Error(w, "too late", http.StatusInternalServerError)
		},
		"flushed the old way, then an error": func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			http.Error(w, "too late", http.StatusInternalServerError)
		},
	} {
		t.Run(name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
			reported := make(chan int, 1)
			wrap := reporting(limiter, reported)
			server := httptest.NewServer(wrap(handler))
			defer server.Close()
			res, err := http.Get(server.URL)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			assert.Equal(t, res.StatusCode, <-reported)
		})
	}
}

// A hijacked connection counts as 200, even if the handler panics afterwards:
// what was written to it is not known.
func TestHijackedConnectionCountsAs200(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
	reported := make(chan int, 1)
	wrap := reporting(limiter, reported)
	server := httptest.NewServer(wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = conn.Close()
		panic(http.ErrAbortHandler)
	})))
	defer server.Close()
	req, err := http.NewRequest(http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
	assert.Equal(t, http.StatusOK, <-reported)
}

// reporting returns a middleware whose Refund reports each status.
func reporting(limiter *core.Limiter, reported chan<- int) func(http.Handler) http.Handler {
	return httplimit.New(limiter, httplimit.Global("all"), httplimit.WithRefund(func(_ *http.Request, status int) bool { reported <- status; return false }))
}
