//go:build !js

package main

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/examples/demo/page"
)

// server has a demo on the network, with its page.
type server struct {
	*demo
	url  string // of itself
	host string // that it was told to listen on
}

func newServer(b *backend, address string) (*server, error) {
	ip := "127.0.0.1"
	if u, err := url.Parse(address); err == nil && net.ParseIP(u.Hostname()) != nil {
		ip = u.Hostname()
	}
	d, err := newDemo(b, ip)
	if err != nil {
		return nil, err
	}
	s := &server{demo: d, url: address}
	d.send = s.overNetwork
	d.mux.HandleFunc("GET /events", s.events)
	return s, page.Serve(d.mux)
}

// bodyTime is how long a client may take to send its body.
const bodyTime = 10 * time.Second

// ServeHTTP lets no other site's page change or read anything through its visitor's browser.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !meantFor(r, s.host) {
		http.Error(w, unknownHost, http.StatusForbidden)
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/limited") { // those answer with what their framework sends
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	if r.Method == http.MethodPost {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // a recorder has none
	}
	http.NewCrossOriginProtection().Handler(s.mux).ServeHTTP(w, r)
}

var caller = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// overNetwork sends a real request.
func (s *server) overNetwork(ctx context.Context, path string, header http.Header) (status int, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return 0, err
	}
	q.Header = header
	resp, err := caller.Do(q)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
	return resp.StatusCode, nil
}

// heartbeat is how often the server looks whether a page that has nothing to hear is still there.
const heartbeat = 20 * time.Second

// events streams to one page.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	stream, flush := http.NewResponseController(w), func() error { return nil }
	var out io.Writer = w
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") { // a greeting says the same of many requests
		zip := gzip.NewWriter(w)
		out, flush = zip, zip.Flush
		w.Header().Set("Content-Encoding", "gzip")
	}
	g, page := s.greet(r.Context())
	defer s.hub.leave(page)
	told, silence := encode("hello", g).event(), time.NewTicker(heartbeat)
	defer silence.Stop()
	for open := true; open; {
		_ = stream.SetWriteDeadline(time.Now().Add(10 * time.Second)) // a page that stands still is cut off
		if _, err := out.Write(told); err != nil || flush() != nil || stream.Flush() != nil {
			return
		}
		select {
		case next, more := <-page:
			told, open = next.event(), more
		case <-silence.C: // a comment, of which the page hears nothing
			told = []byte(": still here\n\n")
		case <-r.Context().Done():
			return
		}
	}
}

// event is a message as a server-sent event.
func (m message) event() []byte {
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", m.name, m.data)
}
