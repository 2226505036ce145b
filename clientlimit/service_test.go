package clientlimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// service is a service without a network. It notes when it was called. answer
// is its answer to the n-th call, from 1; nil breaks the connection.
type service struct {
	answer func(n int, r *http.Request) *http.Response

	mu     sync.Mutex
	start  time.Time
	calls  []time.Duration
	bodies []*watchedBody // of its answers
}

func newService(answer func(n int, r *http.Request) *http.Response) *service {
	return &service{answer: answer, start: time.Now()}
}

func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	s.mu.Lock()
	s.calls = append(s.calls, time.Since(s.start))
	n := len(s.calls)
	s.mu.Unlock()
	res := s.answer(n, r)
	if res == nil {
		return nil, io.ErrUnexpectedEOF
	}
	res.Request = r
	body := &watchedBody{ReadCloser: res.Body}
	s.mu.Lock()
	s.bodies = append(s.bodies, body)
	s.mu.Unlock()
	res.Body = body
	return res, nil
}

// at returns when the calls came.
func (s *service) at() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.calls...)
}

// watchedBody knows how often it was closed. It closes its own body once, as
// net/http does.
type watchedBody struct {
	io.ReadCloser
	closed int
}

func (b *watchedBody) Close() error {
	if b.closed++; b.closed > 1 {
		return nil
	}
	return b.ReadCloser.Close()
}

// watched is the body of a request.
func watched(text string) *watchedBody {
	return &watchedBody{ReadCloser: io.NopCloser(strings.NewReader(text))}
}

// respond returns an answer with fields, which alternate with their values.
func respond(status int, fields ...string) *http.Response {
	res := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("answer"))}
	for i := 0; i < len(fields); i += 2 {
		res.Header.Add(fields[i], fields[i+1])
	}
	return res
}

// served answers each call with 200.
func served(int, *http.Request) *http.Response { return respond(200) }

// refusing returns a service that refuses for a time, and says so.
func refusing(d time.Duration, retryAfter string) func(int, *http.Request) *http.Response {
	until := time.Now().Add(d)
	return func(int, *http.Request) *http.Response {
		if time.Now().Before(until) {
			return respond(429, "Retry-After", retryAfter)
		}
		return respond(200)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reply makes the same answer again and again.
type reply func() *http.Response

// say is an answer with fields, and saying one of JSON.
func say(status int, fields ...string) reply {
	return func() *http.Response { return respond(status, fields...) }
}

func saying(status int, body string, fields ...string) reply {
	return func() *http.Response {
		res := respond(status, append(fields, "Content-Type", "application/json")...)
		res.Body = io.NopCloser(strings.NewReader(body))
		return res
	}
}

// but is a service that answers the calls with some numbers in another way than
// all others.
func but(others reply, some map[int]reply) func(int, *http.Request) *http.Response {
	return func(n int, _ *http.Request) *http.Response {
		if other := some[n]; other != nil {
			return other()
		}
		return others()
	}
}

// atOnce calls f so many times at once, and waits for all.
func atOnce(n int, f func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(f)
	}
	all.Wait()
}

// limited is a service that serves as many requests as a limit says, and tells
// of it by fields of a style.
func limited(style core.HeaderStyle, limit core.Limit) http.RoundTripper {
	limiter := newLimiter(core.Policy{Name: "service", Headers: style, Limits: []core.Limit{limit}})
	handler := httplimit.New(limiter, httplimit.Global("all"))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "here you are")
	}))
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Result(), nil
	})
}

func newLimiter(p core.Policy) *core.Limiter {
	return core.Must(core.NewLimiter(core.NewMemoryStore(), p))
}

// own returns a limiter of the client.
func own(limits ...core.Limit) *core.Limiter {
	return newLimiter(core.Policy{Name: "own", Limits: limits})
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

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
