package clientlimit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// oneSlot returns a client whose requests go one after the other, and what they
// are limited by.
func oneSlot(next http.RoundTripper, options ...clientlimit.Option) (*http.Client, *core.Limiter) {
	limiter := own(core.InFlight(1))
	options = append(options, clientlimit.WithLimiter(limiter, clientlimit.ByHost()))
	return &http.Client{Transport: clientlimit.New(next, options...)}, limiter
}

// serve starts a server, and returns it with a transport of its own.
func serve(t *testing.T, http2 bool, handler http.HandlerFunc) (*httptest.Server, http.RoundTripper) {
	server := httptest.NewUnstartedServer(handler)
	if server.EnableHTTP2 = http2; http2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server, server.Client().Transport
}

// isFree reports whether the slot comes back.
func isFree(t *testing.T, client *http.Client, url string) {
	t.Helper()
	if res, err := client.Get(url); err != nil || res.Body.Close() != nil {
		t.Errorf("%v: want the slot back", err)
	}
}

// A client with one slot follows redirects: each answer's body is closed before
// the next request.
func TestRedirectsDoNotWaitForTheirOwnSlots(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		server, next := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
			if n := len(r.URL.Path); n < 5 {
				http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
				return
			}
			_, _ = io.Copy(w, r.Body)
		})
		client, _ := oneSlot(next)
		res, err := client.Post(server.URL+"/", "text/plain", strings.NewReader("order 7"))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if string(body) != "order 7" {
			t.Errorf("%q: want the body of the request behind 4 redirects", body)
		}
		isFree(t, client, server.URL+"/xxxxx")
	}
}

// Trailers are there after the body, 1xx before it.
func TestTrailersAndEarlyHintsPass(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		server, next := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(w, "answer")
			w.Header().Set("X-Sum", "7")
		})
		client, _ := oneSlot(next)
		res, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.Copy(io.Discard, res.Body); err != nil || res.Trailer.Get("X-Sum") != "7" {
			t.Errorf("%v, trailers %v: want that of the answer", err, res.Trailer)
		}
		isFree(t, client, server.URL) // the body was read to its end
	}
}

// The body of a 101 is a connection that can be written to. It holds its slot
// until it is closed.
func TestAnUpgradedConnectionCanBeWrittenTo(t *testing.T) {
	server, next := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := buffered.ReadString('\n')
		fmt.Fprint(conn, line)
	})
	client, limiter := oneSlot(next)
	req := must(http.NewRequest(http.MethodGet, server.URL, nil))
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	res := must(client.Do(req))
	conn, ok := res.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("%T: want an io.ReadWriteCloser", res.Body)
	}
	fmt.Fprintln(conn, "hello")
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "hello\n" {
		t.Errorf("%q, %v: want what was written", line, err)
	}
	if res := must(limiter.Allow(t.Context(), must(clientlimit.ByHost()(req)))); res.Allowed {
		t.Error("the slot is free while the connection is open")
	}
	conn.Close()
	isFree(t, client, server.URL)
}

// Connections that a server resets cost no request that can be sent again, and
// no slot.
func TestResetConnections(t *testing.T) {
	var n atomic.Int64
	server, next := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%3 != 0 {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
	})
	client, _ := oneSlot(next)
	for range 5 {
		isFree(t, client, server.URL)
	}
}

// away is a body that comes from a service which is away.
type away struct{}

func (away) Read([]byte) (int, error) {
	return 0, &net.OpError{Op: "dial", Err: errors.New("the source is away")}
}

// A POST whose body fails was sent in part, even if the body's error is that of a
// connection which was never there. It is not sent again.
func TestABodyThatFailsIsNoMissingConnection(t *testing.T) {
	var calls atomic.Int64
	server, next := serve(t, false, func(_ http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
	})
	body := func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("order 7"), away{})), nil
	}
	req := must(http.NewRequest(http.MethodPost, server.URL, must(body())))
	req.GetBody = body
	_, err := (&http.Client{Transport: clientlimit.New(next)}).Do(req)
	if server.Close(); err == nil || calls.Load() > 1 {
		t.Errorf("%v after %d calls: want the error of the body, and no second call", err, calls.Load())
	}
}

// Many goroutines share a client while the server serves, refuses, breaks off
// and hangs, and callers give up at any time. In the end nothing waits and no
// slot is taken.
func TestASharedClientInTrouble(t *testing.T) {
	var n atomic.Int64
	server, next := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) % 11 {
		case 1:
			w.Header().Set("RateLimit", `"a";r=1;t=-1, "b";r=99999999999999999999;t=1`)
			w.Header().Set("X-RateLimit-Reset", "1")
		case 3:
			panic(http.ErrAbortHandler)
		case 5:
			<-r.Context().Done()
		case 7:
			w.Header().Set("Retry-After-Ms", "10")
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = io.Copy(w, r.Body)
	})
	for what, limits := range map[string][]core.Limit{"slots": {core.InFlight(8)}, "tokens": {core.PerSecond(10_000)}} {
		limiter := own(limits...)
		client := &http.Client{Transport: clientlimit.New(next, clientlimit.WithLimiter(limiter, clientlimit.ByHost()))}
		atOnce(1000, func() {
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(time.Second))
			defer cancel()
			_, _ = do(client, must(http.NewRequestWithContext(ctx, http.MethodPut, server.URL, strings.NewReader("x"))))
		})
		key := must(clientlimit.ByHost()(must(http.NewRequest(http.MethodGet, server.URL, nil))))
		for range 8 {
			res := must(limiter.Allow(t.Context(), key))
			if !res.Allowed {
				t.Errorf("%s: one is lost: %v", what, res.Limits())
			}
			defer func() { _ = res.Release(t.Context()) }()
		}
	}
}

// Whatever a hostile server does with an answer, a request ends in time, and the
// caller gets an answer or an error.
func TestHostileServers(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	for what, attack := range map[string]http.HandlerFunc{
		"a slow 429": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTooManyRequests); slow(w, r) },
		"a slow 503": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "0.01")
			w.WriteHeader(http.StatusServiceUnavailable)
			slow(w, r)
		},
		"429 with less body than it says": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		"429 that redirects": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/again")
			w.Header().Set("Retry-After-Ms", "1e9999")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		"redirects without end": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "1e308")
			http.Redirect(w, r, "/again", http.StatusFound)
		},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprint(what, ", HTTP/2: ", http2), func(t *testing.T) {
				t.Parallel()
				server, next := serve(t, http2, attack)
				client, limiter := oneSlot(next, clientlimit.WithMaxWait(time.Second), clientlimit.WithAttempts(2))
				began := time.Now()
				atOnce(3, func() {
					if res, err := client.Get(server.URL); err == nil {
						res.Body.Close()
					}
				})
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("3 requests took %v", took)
				}
				key := must(clientlimit.ByHost()(must(http.NewRequest(http.MethodGet, server.URL, nil))))
				if res := must(limiter.Allow(t.Context(), key)); !res.Allowed {
					t.Error("the slot is lost")
				}
			})
		}
	}
}
