// Package fasttest holds tests for the adapters of frameworks on fasthttp. An
// app on fasthttp may keep the names of header fields as they were sent. Names
// are case-insensitive all the same (RFC 9110, section 5.1). It is a package
// because package fast, which apps link, must not import testing.
package fasttest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// FieldsAreFoundUnderAnySpelling checks that ByHeader and ByIP find a field
// under any spelling, and that no spelling hides another: a proxy appends to
// the field that it knows. serve serves an app that keeps names as they were
// sent. The app answers with ByHeader("X-Api-Key"), a space and ByIP, which
// trusts 127.0.0.0/8.
func FieldsAreFoundUnderAnySpelling(t *testing.T, serve func(net.Listener) error) {
	app := start(t, serve)
	for _, spelling := range []string{"X-Api-Key", "x-api-key", "X-API-KEY"} {
		_, got := app.send(spelling+": k",
			"X-Forwarded-For: 192.0.2.66",  // from the client
			"x-forwarded-for: 203.0.113.9") // from the proxy
		if want := "x-api-key:k ip:203.0.113.9"; got != want {
			t.Errorf("sent as %s: %q, want %q", spelling, got, want)
		}
	}
}

// FieldOfTwoSpellingsIsRefused checks that a client can't be limited under
// another value than the one that the app reads: a field with different values
// is refused, whatever the order. serve serves an app that keeps names as they
// were sent. The app allows 3 requests by FirstOf(ByHeader("X-Api-Key"),
// ByIP()).
func FieldOfTwoSpellingsIsRefused(t *testing.T, serve func(net.Listener) error) {
	app := start(t, serve)
	for i := range 10 {
		other := fmt.Sprint("other-", i)
		for _, fields := range [][]string{
			{"x-api-key: " + other, "X-Api-Key: valid"}, {"X-Api-Key: valid", "x-api-key: " + other}, {"X-Api-Key: valid", "X-Api-Key: " + other},
		} {
			if status, _ := app.send(fields...); status != http.StatusBadRequest {
				t.Fatalf("%q was answered %d, want 400", fields, status)
			}
		}
	}
	for i, want := range []int{200, 200, 200, 429} {
		if status, _ := app.send([]string{"X-Api-Key: valid", "x-api-key: valid", "X-API-KEY: valid"}[i%3]); status != want {
			t.Errorf("request %d with only the valid key was answered %d, want %d", i, status, want)
		}
	}
}

// server is a running app.
type server struct {
	t       *testing.T
	address string
}

// start serves an app until the test ends.
func start(t *testing.T, serve func(net.Listener) error) server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = serve(listener) }()
	t.Cleanup(func() { _ = listener.Close() })
	return server{t, listener.Addr().String()}
}

// send sends a request with the given lines of its header on a new connection.
func (s server) send(fields ...string) (status int, body string) {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: app.test\r\n%s\r\n\r\n", strings.Join(fields, "\r\n"))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}
