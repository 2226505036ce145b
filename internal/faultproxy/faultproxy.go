// Package faultproxy is a TCP proxy for tests that breaks the network between a
// client and a server.
package faultproxy

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"
)

// Fault is what a Proxy does to traffic.
type Fault int

const (
	// None passes everything on.
	None Fault = iota
	// Latency delays traffic. See Proxy.SetLatency.
	Latency
	// BlackHole drops all traffic. Connections can be made and stay open.
	BlackHole
	// HalfOpen passes requests on and drops replies: the server executes
	// commands, and the client does not learn of it.
	HalfOpen
	// Truncate passes on the first byte of a reply and closes the connection.
	Truncate
	// Reset ends every connection, old and new, with RST.
	Reset
)

// Proxy passes TCP connections on to a server.
type Proxy struct {
	Addr string

	listener net.Listener

	mu      sync.Mutex // guards everything below
	target  string
	fault   Fault
	latency time.Duration
	conns   map[net.Conn]bool // open ones; false: silent, see Silence
	closed  bool
	done    sync.WaitGroup
}

// New starts a proxy to target that ends with the test.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, conns: map[net.Conn]bool{}}
	p.done.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Set changes the fault, for open connections too.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	if f == Reset {
		for c := range p.conns {
			reset(c)
		}
	}
}

// SetLatency delays every reply by d. It also delays the first request of a
// connection by d, as if making the connection took a round trip. Replies under
// way at once are delayed at once, not one after another.
func (p *Proxy) SetLatency(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.latency = Latency, d
}

// Silence drops all traffic of the connections that are open now, for ever.
// They stay open, and connections to come work: so it is when a firewall
// forgets connections, or when an address moves to another server.
func (p *Proxy) Silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.conns[c] = false
	}
}

// Redirect passes connections to come on to another server. Open ones stay.
func (p *Proxy) Redirect(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *Proxy) server() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// current returns the fault of a connection.
func (p *Proxy) current(c net.Conn) (Fault, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if works, kept := p.conns[c]; kept && !works {
		return BlackHole, 0
	}
	return p.fault, p.latency
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	_ = p.listener.Close()
	p.done.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if f, _ := p.current(client); f == Reset {
			reset(client)
			continue
		}
		server, err := net.Dial("tcp", p.server())
		if err != nil {
			reset(client)
			continue
		}
		if !p.keep(client, server) {
			return
		}
		p.done.Go(func() { p.pass(client, server, true) })
		p.done.Go(func() { p.pass(server, client, false) })
	}
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			_ = c.Close()
			continue
		}
		p.conns[c] = true
	}
	return !p.closed
}

// parcel is a part of a stream under way.
type parcel struct {
	due  time.Time // when to deliver it; zero: at once
	data []byte
}

// pass sends what it reads on one connection to the other, as far as the
// current fault lets it through.
func (p *Proxy) pass(from, to net.Conn, isRequest bool) {
	way := make(chan parcel, 4096) // if it were full, parcels would be later than they are due
	p.done.Go(func() { p.deliver(way, from, to) })
	defer close(way)
	isFirst := isRequest
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		fault, latency := p.current(from)
		due := time.Time{}
		switch {
		case n == 0:
		case fault == BlackHole, fault == HalfOpen && !isRequest:
			n = 0
		case fault == Truncate && !isRequest:
			way <- parcel{data: []byte{buffer[0]}}
			return
		case fault == Latency && (!isRequest || isFirst):
			due = time.Now().Add(latency)
		}
		if n > 0 {
			way <- parcel{due, bytes.Clone(buffer[:n])}
			isFirst = false
		}
		if err != nil {
			return
		}
	}
}

// deliver writes each parcel when it is due, in order. At the end it closes
// both connections.
func (p *Proxy) deliver(way <-chan parcel, from, to net.Conn) {
	var failed error
	for next := range way {
		if failed != nil {
			continue // so that pass does not wait
		}
		time.Sleep(time.Until(next.due))
		if _, failed = to.Write(next.data); failed != nil {
			_ = from.Close()
		}
	}
	_, _ = from.Close(), to.Close()
	p.mu.Lock()
	delete(p.conns, from)
	p.mu.Unlock()
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
