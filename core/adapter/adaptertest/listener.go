package adaptertest

import (
	"context"
	"net"
	"sync"
)

// listener is a net.Listener in memory. Each connection has the peer address that its dialer chose.
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

// dial connects from the given address.
func (l *listener) dial(ctx context.Context, peer string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.incoming <- conn{server, address(peer)}:
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

func (l *listener) Addr() net.Addr { return address("192.0.2.80:80") }

type conn struct {
	net.Conn
	peer address
}

func (c conn) RemoteAddr() net.Addr { return c.peer }

// address is a network address as the server prints it.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
