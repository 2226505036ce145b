package clientlimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// provider is a service without a network. It notes when it was called. answer
// is its answer to the n-th call, from 1.
type provider struct {
	answer func(n int, r *http.Request) *http.Response

	mu     sync.Mutex
	start  time.Time
	calls  []time.Duration
	bodies []*watchedBody // of its answers
}

func newProvider(answer func(n int, r *http.Request) *http.Response) *provider {
	return &provider{answer: answer, start: time.Now()}
}

func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	p.mu.Lock()
	p.calls = append(p.calls, time.Since(p.start))
	n := len(p.calls)
	p.mu.Unlock()
	res := p.answer(n, r)
	if res == nil {
		return nil, io.ErrUnexpectedEOF
	}
	res.Request = r
	body := &watchedBody{ReadCloser: res.Body}
	p.mu.Lock()
	p.bodies = append(p.bodies, body)
	p.mu.Unlock()
	res.Body = body
	return res, nil
}

// at returns when the calls came.
func (p *provider) at() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]time.Duration(nil), p.calls...)
}

// watchedBody knows whether it was read and closed.
type watchedBody struct {
	io.ReadCloser
	read, closed bool
}

func (b *watchedBody) Read(p []byte) (int, error) { b.read = true; return b.ReadCloser.Read(p) }
func (b *watchedBody) Close() error               { b.closed = true; return b.ReadCloser.Close() }

// respond returns an answer with fields, which alternate with their values.
func respond(status int, fields ...string) *http.Response {
	res := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("answer"))}
	for i := 0; i < len(fields); i += 2 {
		res.Header.Add(fields[i], fields[i+1])
	}
	return res
}

// served is a provider that serves each call.
func served(int, *http.Request) *http.Response { return respond(200) }

// refusing returns a provider that refuses until an instant, and tells how long
// it takes.
func refusing(d time.Duration, retryAfter string) func(int, *http.Request) *http.Response {
	until := time.Now().Add(d)
	return func(int, *http.Request) *http.Response {
		if time.Now().Before(until) {
			return respond(429, "Retry-After", retryAfter)
		}
		return respond(200)
	}
}

// handled is a service that a handler makes, without a network.
type handled struct{ http.Handler }

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r = r.Clone(r.Context())
	r.RemoteAddr = "192.0.2.1:1234"
	h.ServeHTTP(w, r)
	res := w.Result()
	res.Request = r
	return res, nil
}

// limited is a service that serves as many requests as limits say, and tells of
// them by fields of a style.
func limited(t *testing.T, style core.HeaderStyle, limits ...core.Limit) handled {
	t.Helper()
	l, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "provider", Headers: style, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return limitedBy(l)
}

// limitedBy returns a service that a limiter limits.
func limitedBy(l *core.Limiter) handled {
	return handled{httplimit.New(l, httplimit.Global("all"))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "here you are")
	}))}
}

// get sends a request to a host, reads its answer, and returns the status.
func get(ctx context.Context, t *testing.T, client *http.Client, host string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(client, req)
}

// do sends a request, reads its answer, and returns the status.
func do(client *http.Client, req *http.Request) (int, error) {
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// inBubble runs a test on synctest's clock, which stores, waits and deadlines
// share.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}
