package httplimit_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// A reverse proxy panics with http.ErrAbortHandler if its client leaves after
// the 200 was sent. The token must not be returned, or clients could avoid a
// limit by leaving early.
func TestClientThatHangsUpGetsNoRefund(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) { hangUp(t, protocol) })
	}
}

func hangUp(t *testing.T, protocol string) {
	left := make(chan struct{}, 10)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		block := make([]byte, 1<<16)
		for r.Context().Err() == nil { // until the proxy leaves
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer upstream.Close()
	to, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(3)}}))
	handler := httplimit.New(limiter, httplimit.Global("all"),
		httplimit.WithRefund(func(_ *http.Request, status int) bool { return status >= 500 }))(proxy)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { left <- struct{}{} }()
		if r.Proto != protocol {
			t.Errorf("the premise: %s, got %s", protocol, r.Proto)
		}
		handler.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = protocol == "HTTP/2.0"
	server.StartTLS()
	defer server.Close()
	served := 0
	for range 10 {
		client := server.Client()
		res, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == http.StatusOK {
			served++
			_, _ = io.CopyN(io.Discard, res.Body, 1<<16)
		}
		_ = res.Body.Close()
		client.CloseIdleConnections()
		<-left
	}
	if served != 3 {
		t.Errorf("%d of 10 requests were served, want 3, the capacity", served)
	}
}
