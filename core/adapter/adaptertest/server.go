package adaptertest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	// patience bounds steps that should take no time. A step that hangs then
	// fails with a message.
	patience = boundOf(20 * time.Second)
	// longest bounds the check of a rule, whatever it waits for.
	longest = boundOf(time.Minute)
)

// bound is a duration that a test of the suite changes, while requests of an
// earlier rule may still be under way.
type bound struct{ nanoseconds atomic.Int64 }

func boundOf(d time.Duration) *bound {
	b := new(bound)
	b.set(d)
	return b
}

func (b *bound) set(d time.Duration) { b.nanoseconds.Store(int64(d)) }
func (b *bound) get() time.Duration  { return time.Duration(b.nanoseconds.Load()) }

// server is a running App, and its client.
type server struct {
	l    *listener
	kept *wire // the connection of all requests; nil: each has its own
}

// serve has start serve an app until the test ends.
func serve(t testing.TB, start func(net.Listener) error) *server {
	l := newListener()
	returned := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("Kit.Serve panicked: %v", p)
				returned <- nil
			}
			_ = l.Close() // later requests must fail at once
		}()
		returned <- start(l)
	}()
	t.Cleanup(func() {
		_ = l.Close()
		l.hangUp()
		select {
		case <-returned:
		case <-time.After(patience.get()):
			t.Errorf("Kit.Serve must return when Accept fails")
		}
	})
	return &server{l: l}
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

// wire is a client's end of a connection.
type wire struct {
	net.Conn
	in *bufio.Reader
}

// dial returns a new connection, which ends after patience.
func (s *server) dial(ctx context.Context, peer string) (*wire, error) {
	conn, err := s.l.dial(ctx, cmp.Or(peer, "192.0.2.1:4711"))
	if err != nil {
		return nil, err
	}
	return &wire{conn, bufio.NewReader(conn)}, conn.SetDeadline(time.Now().Add(patience.get()))
}

// try sends r. If ctx ends, the client leaves.
func (s *server) try(ctx context.Context, r request) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, patience.get())
	defer cancel()
	conn := s.kept
	if conn == nil {
		var err error
		if conn, err = s.dial(ctx, r.peer); err != nil {
			return response{}, err
		}
		defer conn.Close()
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	sent, err := r.build()
	if err != nil {
		return response{}, err
	}
	go func() { // the server may answer before it has read all
		if r.raw != "" {
			_, _ = io.WriteString(conn, r.raw)
		} else {
			_ = sent.Write(conn)
		}
	}()
	for {
		got, err := http.ReadResponse(conn.in, sent)
		if err != nil {
			return response{}, err
		}
		if got.StatusCode >= 200 || got.StatusCode == http.StatusSwitchingProtocols {
			defer got.Body.Close()
			body, err := io.ReadAll(got.Body)
			return response{got.StatusCode, got.Header, string(body)}, err
		}
	}
}

// build makes r a request of net/http.
func (r *request) build() (*http.Request, error) {
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	if r.chunked {
		body = io.MultiReader(body) // net/http does not know its length
	}
	sent, err := http.NewRequest(r.method, "http://app.test"+cmp.Or(r.target, "/other"), body)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(r.header); i += 2 {
		sent.Header.Add(r.header[i], r.header[i+1])
	}
	return sent, nil
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
