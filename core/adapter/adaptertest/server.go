package adaptertest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
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

// server is a running App, and client its client.
type server struct {
	t testing.TB
	l *listener

	mu      sync.Mutex
	clients map[string]*http.Client // by peer address; each reuses its connections
}

// serve has start serve an app until the test ends.
func serve(t testing.TB, start func(net.Listener) error) *server {
	s := &server{t: t, l: newListener(), clients: make(map[string]*http.Client)}
	returned := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("Kit.Serve panicked: %v", p)
				returned <- nil
			}
			_ = s.l.Close() // later requests must fail at once
		}()
		returned <- start(s.l)
	}()
	t.Cleanup(func() {
		_ = s.l.Close()
		s.l.hangUp()
		for _, client := range s.clients {
			client.CloseIdleConnections()
		}
		select {
		case <-returned:
		case <-time.After(patience):
			t.Errorf("Kit.Serve must return when Accept fails")
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
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.l.dial(ctx, peer) },
				// A transport may dial before it has noticed that a
				// connection is free.
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
	peer   string // the connection's peer, as "192.0.2.1:4711", or with its network: "unix /run/proxy.sock"
	method string
	target string
	header []string // names and values in turns
	body   string

	chunked bool   // the body is sent without its length
	raw     string // if it is not empty, it is sent in place of all but peer
}

// response is the answer to a request.
type response struct {
	status int
	header http.Header
	body   string
}

const defaultPeer = "192.0.2.1:4711"

// try sends r. It gives up when ctx ends, or after patience.
func (s *server) try(ctx context.Context, r request) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if r.peer == "" {
		r.peer = defaultPeer
	}
	if r.raw != "" {
		return s.sendRaw(ctx, r)
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
	for i := 0; i < len(r.header); i += 2 {
		sent.Header.Add(r.header[i], r.header[i+1])
	}
	got, err := s.client(r.peer).Do(sent)
	return read(got, err)
}

// sendRaw sends the text of a request on a connection of its own.
func (s *server) sendRaw(ctx context.Context, r request) (response, error) {
	connection, err := s.dial(ctx, r.peer)
	if err != nil {
		return response{}, err
	}
	defer connection.Close()
	go func() { _, _ = io.WriteString(connection, r.raw) }() // the server may answer before it has read all
	got, err := http.ReadResponse(bufio.NewReader(connection), nil)
	return read(got, err)
}

// dial returns a connection that ends after patience.
func (s *server) dial(ctx context.Context, peer string) (net.Conn, error) {
	conn, err := s.l.dial(ctx, peer)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(patience))
}

// read returns the response that net/http has got.
func read(got *http.Response, err error) (response, error) {
	if err != nil {
		return response{}, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	return response{got.StatusCode, got.Header, string(text)}, err
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
// in "unix 192.0.2.7:80". Without one it is "tcp".
func (l *listener) dial(ctx context.Context, peer string) (net.Conn, error) {
	client, accepted := net.Pipe()
	network, name, ok := strings.Cut(peer, " ")
	if !ok {
		network, name = "tcp", peer
	}
	select {
	case l.incoming <- conn{accepted, addressOf(network, name), addressOf(network, "192.0.2.80:80")}:
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
			return nil, errors.Join(net.ErrClosed, c.Close())
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

// connections returns how many connections were made.
func (l *listener) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

func (l *listener) Addr() net.Addr { return addressOf("tcp", "192.0.2.80:80") }

// conn is a connection with addresses of its own.
type conn struct {
	net.Conn
	peer, local net.Addr
}

func (c conn) RemoteAddr() net.Addr { return c.peer }
func (c conn) LocalAddr() net.Addr  { return c.local }

// address is a network address as the server prints it.
type address struct{ network, name string }

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.name }

// addressOf returns the address of a connection, as package net does.
func addressOf(network, name string) net.Addr {
	if tcp, err := netip.ParseAddrPort(name); network == "tcp" && err == nil {
		return net.TCPAddrFromAddrPort(tcp)
	}
	return address{network, name}
}
