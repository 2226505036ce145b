// Package hostile is a client that attacks an app, as clients of the internet
// do.
//
// Run attacks an app in the test's process: with made-up keys, others' names,
// paths that don't exist, requests that end early or never, bodies that grow
// and answers that nobody reads. Each attack comes from one address and with
// one verified key. A victim with another address and key must be served
// meanwhile.
//
// Main, Start and Deploy run the program itself: they stop it under load, and
// take its Redis away.
package hostile

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// App is an app and what its clients send.
type App struct {
	// Server serves the app. An *http.Server gets shorter timeouts than its
	// own, all of which must be set.
	Server Server

	// Request returns a request with a key, or with "" without any. Its URL
	// has no host.
	Request func(key string) *http.Request

	// Attacker and Victim are two verified keys.
	Attacker, Victim string

	// PerKey is how many requests of one key pass at once, and PerAddress how
	// many of one address are answered at all before it is denied.
	PerKey, PerAddress int

	// Anonymous is how many requests of one address pass without a verified
	// key.
	Anonymous int

	// Worked returns how often the app has done its work. Nil: its answers
	// tell.
	Worked func() int

	// Send sends a request from an address to the app, which is at URL.Host,
	// and returns the status of the answer, or 0 if there was none. Nil: by
	// HTTP.
	Send func(ip string, r *http.Request) int

	// Skip are names of attacks that the app is not for. Each needs a reason
	// in the test.
	Skip []string
}

// Server serves HTTP, such as an *http.Server.
type Server interface {
	Serve(net.Listener) error
	Close() error
}

// Timed is a Server with timeouts, by their names, all of which must be set. It
// gets shorter ones, as an *http.Server does.
type Timed interface {
	Timeouts() map[string]*time.Duration
}

// short replaces the timeouts of a server, which are of seconds. It is long
// enough for an honest request on a slow machine.
const short = 2 * time.Second

// patience is how long to wait for what a server does by itself.
const patience = time.Minute

const poll = 10 * time.Millisecond

// Attacker and victim have addresses of their own.
const (
	attackerIP = "127.0.0.1"
	victimIP   = "127.0.0.2"
)

// target is an app that is served.
type target struct {
	App
	addr  string
	conns *listener

	clients map[string]*http.Client // by address
}

// Run runs each attack against a new app, whose store's clock stands still, so
// that no token comes back.
func Run(t *testing.T, start func(t *testing.T, store core.Store) App) {
	probe, err := net.Listen("tcp", victimIP+":0")
	if err != nil {
		t.Skipf("this system has no second address on loopback: %v", err)
	}
	_ = probe.Close()
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			now := time.Now()
			app := start(t, core.NewMemoryStore(core.WithClock(func() time.Time { return now })))
			if slices.Contains(app.Skip, a.name) {
				t.Skip("the app is not for it")
			}
			if a.waits {
				t.Parallel()
			}
			a.attack(t, serve(t, app))
		})
	}
}

// serve serves an app on loopback until the test ends.
func serve(t *testing.T, app App) *target {
	t.Helper()
	timeouts := map[string]*time.Duration{}
	switch s := app.Server.(type) {
	case *http.Server:
		timeouts = map[string]*time.Duration{
			"ReadHeaderTimeout": &s.ReadHeaderTimeout, "ReadTimeout": &s.ReadTimeout, "WriteTimeout": &s.WriteTimeout, "IdleTimeout": &s.IdleTimeout,
		}
	case Timed:
		timeouts = s.Timeouts()
	}
	for name, timeout := range timeouts {
		require.NotZero(t, *timeout, "the server has no %s", name)
		*timeout = short
	}
	l, err := net.Listen("tcp", attackerIP+":0")
	require.NoError(t, err)
	counted := &listener{Listener: l}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = app.Server.Serve(counted)
	}()
	t.Cleanup(func() {
		_ = app.Server.Close()
		_ = l.Close()
		<-done
	})
	return &target{App: app, addr: l.Addr().String(), conns: counted, clients: map[string]*http.Client{
		attackerIP: Client(t, attackerIP), victimIP: Client(t, victimIP),
	}}
}

// listener counts the connections that are open.
type listener struct {
	net.Listener
	accepted, open atomic.Int64
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.accepted.Add(1)
	l.open.Add(1)
	return &conn{Conn: c, of: l}, nil
}

type conn struct {
	net.Conn
	of     *listener
	closed atomic.Bool
}

func (c *conn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.of.open.Add(-1)
	}
	return c.Conn.Close()
}

// Client returns a client with an address. It unpacks nothing, and follows no
// redirects.
func Client(t *testing.T, ip string) *http.Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// send sends a request from an address, and returns the status of its answer,
// or 0 if the server hung up.
func (a *target) send(t *testing.T, ip string, r *http.Request) int {
	t.Helper()
	r = r.Clone(t.Context())
	r.URL.Scheme, r.URL.Host, r.Host, r.RequestURI = "http", a.addr, a.addr, ""
	if a.Send != nil {
		return a.Send(ip, r)
	}
	res, err := a.clients[ip].Do(r)
	if err != nil {
		require.NotErrorIs(t, err, context.DeadlineExceeded, "no answer")
		return 0
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
	_ = res.Body.Close()
	return res.StatusCode
}

func passed(status int) bool { return status >= 200 && status < 400 }

// wantServed is the rule behind all attacks.
func (a *target) wantServed(t *testing.T) {
	t.Helper()
	status := a.send(t, victimIP, a.Request(a.Victim))
	require.Truef(t, passed(status), "the victim got %d: somebody else must not be able to use up what it has", status)
}

// worked is how many of the requests had work done for them, of those that
// passed.
func (a *target) worked(passed int) int {
	if a.Worked != nil {
		return a.Worked()
	}
	return passed
}

// dial opens a connection, with small buffers, that the test closes in the end.
func (a *target) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(attackerIP)}}
	c, err := dialer.DialContext(t.Context(), "tcp", a.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	tcp := c.(*net.TCPConn)
	_ = tcp.SetReadBuffer(1 << 10)
	return tcp
}

// wantClosed waits until the server has closed all of its connections, while
// the clients keep theirs.
func (a *target) wantClosed(t *testing.T) {
	t.Helper()
	require.Eventuallyf(t, func() bool { return a.conns.open.Load() == 0 }, patience, poll,
		"the server keeps connections for longer than its timeouts")
}

// raw is a request as it is sent, with a body of which nothing may follow.
func raw(r *http.Request, body string, declared string) string {
	var b strings.Builder
	b.WriteString(r.Method + " " + r.URL.RequestURI() + " HTTP/1.1\r\nHost: localhost\r\n")
	_ = r.Header.Write(&b)
	b.WriteString(declared + "\r\n" + body)
	return b.String()
}
