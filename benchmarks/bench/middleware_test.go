package bench_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	ginratelimit "github.com/JGLTechnologies/gin-rate-limit"
	"github.com/stretchr/testify/require"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core"
)

// BenchmarkMiddleware serves requests in process, one after the other, of 1,000
// clients whose buckets are in memory.
func BenchmarkMiddleware(b *testing.B) {
	clients := names(1000)
	for _, a := range apps {
		handler := a.new(buckets{
			library: core.NewMemoryStore(), ulule: ululememory.NewStore(),
			gin: ginratelimit.InMemoryStore(&ginratelimit.InMemoryOptions{Rate: window, Limit: uint(roomy.burst)}),
		})
		b.Run("peer="+a.name, func(b *testing.B) {
			if h, ok := handler.(fasthttp.RequestHandler); ok {
				spread(b, 1, a.fastCaller(h, clients))
				return
			}
			spread(b, 1, a.caller(b, handler.(http.Handler), clients))
		})
	}
}

// caller has h serve requests, with a response that it reuses.
func (a app) caller(b *testing.B, h http.Handler, clients []string) func(i int) error {
	b.Helper()
	requests := make([]*http.Request, len(clients))
	for i, client := range clients {
		r, err := http.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		require.NoError(b, err)
		r.RemoteAddr, r.RequestURI = "192.0.2.1:40000", path
		r.Header.Set(keyField, client)
		requests[i] = r
	}
	w := &response{header: make(http.Header)}
	return func(i int) error {
		w.status = 0
		clear(w.header)
		h.ServeHTTP(w, requests[i%len(requests)])
		if w.status != http.StatusOK || a.sends != "" && len(w.header[a.sends]) == 0 {
			return fmt.Errorf("%s answers %d with %v", a.name, w.status, w.header)
		}
		return nil
	}
}

// fastCaller is caller for fasthttp, whose server reuses the whole context.
func (a app) fastCaller(h fasthttp.RequestHandler, clients []string) func(i int) error {
	var request fasthttp.Request
	request.SetRequestURI("http://localhost" + path)
	c := &fasthttp.RequestCtx{}
	c.Init(&request, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 40000}, nil)
	return func(i int) error {
		c.ResetUserValues()
		c.Response.Reset()
		c.Request.Header.Set(keyField, clients[i%len(clients)])
		h(c)
		if c.Response.StatusCode() != http.StatusOK || a.sends != "" && len(c.Response.Header.Peek(a.sends)) == 0 {
			return fmt.Errorf("%s answers %d with %s", a.name, c.Response.StatusCode(), &c.Response.Header)
		}
		return nil
	}
}

// response is an http.ResponseWriter that forgets its body.
type response struct {
	header http.Header
	status int
	err    error // of httprate's store
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
