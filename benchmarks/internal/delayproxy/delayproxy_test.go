package delayproxy_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/delayproxy"
)

const delay = 20 * time.Millisecond

func TestEachWayTakesTheDelay(t *testing.T) {
	client := throughProxy(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
	began := time.Now()
	send(t, client, "PING")
	if got := receive(t, client, 4); got != "PING" {
		t.Errorf("received %q, must be PING", got)
	}
	if took := time.Since(began); took < 2*delay {
		t.Errorf("the round trip took %v, must be %v or more", took, 2*delay)
	}
}

// What is sent at once travels at once: ten requests take no longer than one.
func TestParcelsTravelTogether(t *testing.T) {
	client := throughProxy(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
	began := time.Now()
	for range 10 {
		send(t, client, "x")
		time.Sleep(time.Millisecond)
	}
	if got := receive(t, client, 10); got != "xxxxxxxxxx" {
		t.Errorf("received %q, must be ten x in order", got)
	}
	if took := time.Since(began); took > 10*delay {
		t.Errorf("ten requests took %v, must be far below ten round trips of %v", took, 2*delay)
	}
}

func TestTheEndOfAStreamArrivesAfterItsData(t *testing.T) {
	client := throughProxy(t, func(c net.Conn) { _, _ = io.WriteString(c, "bye"); _ = c.Close() })
	if got, err := io.ReadAll(client); string(got) != "bye" || err != nil {
		t.Errorf("received %q, %v, must be bye and the end", got, err)
	}
}

// throughProxy is a connection, through a proxy, to a server that handles connections.
func throughProxy(t *testing.T, handle func(net.Conn)) net.Conn {
	t.Helper()
	server, proxy := listen(t), listen(t)
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go handle(c)
		}
	}()
	go func() { _ = delayproxy.Serve(proxy, server.Addr().String(), delay) }()
	client, err := net.Dial("tcp", proxy.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, c net.Conn, n int) string {
	t.Helper()
	got := make([]byte, n)
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	return string(got)
}
