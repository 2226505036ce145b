package adaptertest

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds what should take no time at all, so that a hang is a failure with a name.
const patience = 20 * time.Second

// server is a running App.
type server struct {
	t testing.TB
	l *listener

	mu      sync.Mutex
	clients map[string]*http.Client // by peer address; each keeps its connections open
}

// serve runs app until the test ends.
func (c *trial[K, O]) serve(app App[K, O]) *server {
	c.t.Helper()
	s := &server{t: c.t, l: newListener(), clients: make(map[string]*http.Client)}
	returned := make(chan error, 1)
	go func() {
		defer s.l.Close() // nobody will answer
		returned <- c.kit.Serve(s.l, app)
	}()
	c.t.Cleanup(func() {
		_ = s.l.Close()
		s.l.hangUp()
		for _, client := range s.clients {
			client.CloseIdleConnections()
		}
		select {
		case <-returned:
		case <-time.After(patience):
			c.t.Errorf("Kit.Serve must return when Accept fails")
		}
	})
	return s
}

func (s *server) client(peer string) *http.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	client := s.clients[peer]
	if client == nil {
		client = &http.Client{
			Transport: &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return s.l.dial(ctx, peer)
				},
				MaxIdleConnsPerHost: 100,
				DisableCompression:  true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		s.clients[peer] = client
	}
	return client
}

// request is an HTTP request. Its zero value is GET /other from 192.0.2.1.
type request struct {
	peer   string
	method string
	target string
	header http.Header
	body   string

	chunked bool // the body's length is not told
}

// response is the answer to a request.
type response struct {
	status int
	header http.Header
	body   string
}

// send sends r and fails the test when there is no answer.
func (s *server) send(r request) response {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := s.try(ctx, r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", r.method, r.target, err)
	}
	return answer
}

// try sends r, as long as ctx lasts.
func (s *server) try(ctx context.Context, r request) (response, error) {
	if r.peer == "" {
		r.peer = "192.0.2.1:4711"
	}
	if r.method == "" {
		r.method = http.MethodGet
	}
	if r.target == "" {
		r.target = "/other"
	}
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	if r.chunked {
		body = io.MultiReader(body) // whose length net/http does not know
	}
	sent, err := http.NewRequestWithContext(ctx, r.method, "http://app.test"+r.target, body)
	if err != nil {
		return response{}, err
	}
	for name, values := range r.header {
		sent.Header[http.CanonicalHeaderKey(name)] = values
	}
	got, err := s.client(r.peer).Do(sent)
	if err != nil {
		return response{}, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	return response{got.StatusCode, got.Header, string(text)}, err
}

// raw sends a request as it is written, and fails the test when there is no answer.
func (s *server) raw(text string) response {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := s.l.dial(ctx, "192.0.2.1:4712")
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatalf("%q: %v", text, err)
	}
	defer got.Body.Close()
	body, _ := io.ReadAll(got.Body)
	return response{got.StatusCode, got.Header, string(body)}
}

// header makes a header of names and values in turn. A name may come more than once.
func header(pairs ...string) http.Header {
	h := make(http.Header)
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}
