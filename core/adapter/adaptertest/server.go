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

var (
	// patience bounds steps that should take no time. A step that hangs then
	// fails with a message.
	patience = 20 * time.Second
	// longest bounds the check of a rule, whatever it waits for.
	longest = time.Minute
)

// server is a running App.
type server struct {
	t testing.TB
	l *listener

	mu      sync.Mutex
	clients map[string]*http.Client // by peer address; each reuses its connections
}

// serve runs app until the test ends.
func (c *trial) serve(app App[middleware]) *server {
	c.t.Helper()
	s := &server{t: c.t, l: newListener(), clients: make(map[string]*http.Client)}
	returned := make(chan error, 1)
	go func() {
		defer s.l.Close() // later requests must fail at once
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

	chunked bool // the body is sent without its length
}

// response is the answer to a request.
type response struct {
	status int
	header http.Header
	body   string
}

// defaultPeer is the address that requests come from.
const defaultPeer = "192.0.2.1:4711"

// send sends r, and fails the test if there is no answer.
func (s *server) send(r request) response {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	got, err := s.try(ctx, r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", r.method, r.target, err)
	}
	return got
}

// try sends r. It gives up when ctx ends, or an answer takes longer than a rule
// may.
func (s *server) try(ctx context.Context, r request) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if r.peer == "" {
		r.peer = defaultPeer
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
		body = io.MultiReader(body) // net/http does not know its length
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

// raw sends the text of a request, and fails the test if there is no answer.
func (s *server) raw(text string) response {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	connection, err := s.l.dial(ctx, "192.0.2.1:4712")
	if err != nil {
		s.t.Fatal(err)
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(patience))
	go func() { _, _ = io.WriteString(connection, text) }() // the server may answer before it has read all
	got, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		s.t.Fatalf("%.200q: %v", text, err)
	}
	defer got.Body.Close()
	body, _ := io.ReadAll(got.Body)
	return response{got.StatusCode, got.Header, string(body)}
}

// header returns a header of the given names and values, which alternate. A
// name may occur more than once.
func header(pairs ...string) http.Header {
	h := make(http.Header)
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// listener is a net.Listener in memory. The dialer chooses the peer address of
// a connection.
type listener struct {
	incoming chan net.Conn
	closed   chan struct{}

	mu    sync.Mutex
	done  bool
	conns []net.Conn // the server's ends
}

func newListener() *listener {
	return &listener{incoming: make(chan net.Conn), closed: make(chan struct{})}
}

// dial connects from the given address. A network may stand in front of it, as
// in "unix 192.0.2.7:80". Without one it is "tcp", and of the names that
// sockets usually have "unix".
func (l *listener) dial(ctx context.Context, peer string) (net.Conn, error) {
	client, accepted := net.Pipe()
	network, name, ok := strings.Cut(peer, " ")
	if !ok {
		network, name = "tcp", peer
		if strings.HasPrefix(peer, "@") || strings.HasPrefix(peer, "/") {
			network = "unix"
		}
	}
	select {
	case l.incoming <- conn{accepted, address{network, name}}:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.done {
			_ = c.Close()
			return nil, net.ErrClosed
		}
		l.conns = append(l.conns, c)
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept and dial fail. It may be called more than once.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done {
		l.done = true
		close(l.closed)
	}
	return nil
}

// hangUp closes every connection.
func (l *listener) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
}

func (l *listener) Addr() net.Addr { return address{"tcp", "192.0.2.80:80"} }

type conn struct {
	net.Conn
	peer address
}

func (c conn) RemoteAddr() net.Addr { return c.peer }
func (c conn) LocalAddr() net.Addr  { return address{c.peer.network, "192.0.2.80:80"} }

// address is a network address as the server prints it.
type address struct{ network, name string }

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.name }
