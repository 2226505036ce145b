package adaptertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// refusal is a way in which a limiter answers a POST instead of the handler.
type refusal struct {
	name    string
	status  int
	limiter middleware
}

// refusals returns every way.
func (c *trial) refusals() []refusal {
	k := c.kit
	full, all := c.holding(1), k.Global("all")
	tooMuch := k.WithCost(func(Header) (int64, error) { return 9, nil })
	failing := k.Custom(func(Header) (string, error) { return "", errSecret })
	closed := c.limiterOn(brokenStore{}, core.Policy{Name: "closed", Limits: []core.Limit{slow(1)}, OnFailure: core.FailClosed})
	teapot := k.OnDenied(func(core.Result) (int, string) { return http.StatusTeapot, "mine" })
	list := []refusal{
		{"a denial", 429, middleware{Limiter: full, Key: all, Options: []anyOption{tooMuch}}},
		{"an answer of OnDenied", 418, middleware{Limiter: full, Key: all, Options: []anyOption{tooMuch, teapot}}},
		{"a denial by several limiters", 429, middleware{Together: []rule{{full, all}, {full, k.Global("one")}}, Options: []anyOption{tooMuch}}},
		{"a missing key", 400, middleware{Limiter: full, Key: k.ByHeader("User")}},
		{"a failing key function", 500, middleware{Limiter: full, Key: failing}},
		{"a store that does not answer", 503, middleware{Limiter: closed, Key: all}},
		{"an answer of OnError", 418, middleware{Limiter: full, Key: failing,
			Options: []anyOption{k.OnError(func(error) (int, string) { return http.StatusTeapot, "mine" })}}},
	}
	for _, h := range []struct {
		name    string
		status  int
		limiter *core.Limiter
		key     string
		reads   int64
	}{
		{"a denial by Allow", 429, c.emptied("all"), "all", 0},
		{"a denial by Allow behind a byte of the body", 429, c.emptied("all"), "all", 1},
		{"a denial by Allow behind 9 KiB of the body", 429, c.emptied("all"), "all", 9 << 10},
		{"a missing key in Allow", 400, full, "", 0},
		{"no decision in Allow", 503, closed, "all", 10},
	} {
		list = append(list, refusal{h.name, h.status, middleware{Limiter: h.limiter, Handler: &handler{reads: h.reads, keys: constant(h.key)}}})
	}
	if k.Error != nil {
		list = append(list, refusal{"a client error of the framework", 401, middleware{Limiter: full,
			Key: k.Custom(func(Header) (string, error) { return "", k.Error(http.StatusUnauthorized) })}})
	}
	return list
}

// smuggled is a request in the body of another.
const smuggled = "GET /free HTTP/1.1\r\nHost: app.test\r\n\r\n"

// unread checks that what a refused request leaves of its body on the
// connection is not taken for requests. The handler that would read the body
// never runs, and a server that hands out bodies as streams has not read it
// either.
func (s *suite) unread() {
	bodies := map[string]string{
		"short":                              strings.Repeat(smuggled, 3),
		"longer than a buffer":               strings.Repeat(smuggled, 3000),
		"with requests behind 8 KiB":         strings.Repeat("x", 8<<10) + strings.Repeat(smuggled, 50),
		"with requests behind a whole chunk": strings.Repeat("x", 4<<10) + strings.Repeat(smuggled, 50),
	}
	for _, streams := range []bool{false, true} {
		for _, chunked := range []bool{false, true} {
			for _, expects := range []bool{false, true} {
				s.rule(fmt.Sprintf("the body of a refused request is never read as requests (streamed: %v, chunked: %v, Expect: %v)", streams, chunked, expects), func(c *trial) {
					for _, r := range c.refusals() {
						app, free := c.attacked(r.limiter, streams)
						for name, body := range bodies {
							c.smuggle(app, r, name, post(body, chunked, expects))
						}
						if n := free.Load(); n > 0 {
							c.errorf("%s: %d requests in bodies reached a handler", r.name, n)
						}
					}
				})
			}
		}
	}
	for _, streams := range []bool{false, true} {
		s.rule(fmt.Sprintf("behind a reverse proxy no client gets the answer to another's request (streamed: %v)", streams), func(c *trial) {
			for _, r := range c.refusals() {
				app, free := c.attacked(r.limiter, streams)
				c.throughProxy(app, r, bodies)
				if n := free.Load(); n > 0 {
					c.errorf("%s: %d requests in bodies reached a handler", r.name, n)
				}
			}
		})
	}
}

// unreadable checks connections that send no request that the server can read.
func (s *suite) unreadable() {
	s.rule("a connection that sends no valid request takes no token and is not settled", func(c *trial) {
		l := c.holding(9)
		var ended atomic.Int64
		app := c.use(l, c.kit.Global("all"), c.kit.WithRefund(func(Header, int) bool { ended.Add(1); return false }))
		for _, text := range []string{
			"GET /other HTTP/1.1\r\nHost app.test\r\n\r\n",
			"GET /other\x00 HTTP/9.9\r\n: x\r\n\r\n",
			"POST /other HTTP/1.1\r\nHost: app.test\r\nContent-Length: x\r\n\r\n",
			"GET /other HTTP/1.1\r\nHost: app.test\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n",
		} {
			if got := app.raw(text); got.status < 400 {
				c.errorf("the premise: %.60q is no valid request, and was answered %d", text, got.status)
			}
		}
		c.wantRemaining(app.send(request{}), 8, "the first valid request, with a capacity of 9")
		if n := ended.Load(); n != 1 {
			c.errorf("WithRefund was called %d times, want only for the valid request", n)
		}
	})
}

// attacked serves an app on TCP: POST /other is limited, GET /items/{id}
// answers 201, and free counts the requests for /free.
func (c *trial) attacked(l middleware, streams bool) (address string, free *atomic.Int64) {
	c.t.Helper()
	free = new(atomic.Int64)
	app := App[middleware]{
		StreamBodies: streams,
		Context:      func(ctx context.Context) context.Context { return ctx },
		Routes: []Route[middleware]{
			{http.MethodPost, "/other", []middleware{l}, answer(http.StatusAccepted)},
			{http.MethodGet, "/items/{id}", nil, answer(http.StatusCreated)},
			{http.MethodGet, "/free", nil, counted(free, answer(http.StatusOK))},
		},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	go func() { _ = c.kit.Serve(listener, app) }()
	c.t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String(), free
}

// post is a request with a body in its two parts.
func post(body string, chunked, expects bool) (parts [2]string) {
	fields := []string{"POST /other HTTP/1.1", "Host: app.test", fmt.Sprint("Content-Length: ", len(body))}
	if chunked {
		fields[2] = "Transfer-Encoding: chunked"
		var b strings.Builder
		for rest := body; rest != ""; {
			n := min(len(rest), 4<<10)
			fmt.Fprintf(&b, "%x\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		body = b.String() + "0\r\n\r\n"
	}
	if expects {
		fields = append(fields, "Expect: 100-continue")
	}
	return [2]string{strings.Join(fields, "\r\n") + "\r\n\r\n", body}
}

// smuggle sends a request that is refused, and then another on the same
// connection. It checks that these two are answered, or only the first if the
// server closes the connection.
func (c *trial) smuggle(address string, r refusal, body string, request [2]string) {
	c.t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	rest := request[1] + "GET /items/1 HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n"
	expects := strings.Contains(request[0], "Expect")
	if _, err := io.WriteString(conn, request[0]); err != nil {
		c.t.Fatal(err)
	}
	sending := false
	send := func() {
		if !sending {
			sending = true
			go func() { _, _ = io.WriteString(conn, rest) }() // the server may close the connection meanwhile
		}
	}
	if !expects {
		send()
	}
	var got []int
	for in := bufio.NewReader(conn); ; {
		res, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		if err != nil {
			if e := net.Error(nil); errors.As(err, &e) && e.Timeout() {
				c.errorf("%s, a body %s: after the answers %v the connection is neither used nor closed", r.name, body, got)
			}
			break
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode == http.StatusContinue {
			send()
			continue
		}
		send() // an attacker sends the body although it was answered
		got = append(got, res.StatusCode)
	}
	if len(got) == 0 || got[0] != r.status || len(got) > 2 || len(got) == 2 && got[1] != http.StatusCreated {
		c.errorf("%s, a body %s: the answers on the connection are %v, want %d, and then nothing or the 201 of the next request", r.name, body, got, r.status)
	}
}

// throughProxy has an attacker and another client use one reverse proxy, which
// reuses its connections to the app.
func (c *trial) throughProxy(address string, r refusal, bodies map[string]string) {
	c.t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	transport := &http.Transport{MaxIdleConnsPerHost: 1, ExpectContinueTimeout: time.Second}
	defer transport.CloseIdleConnections()
	proxy.Transport = transport
	front := httptest.NewServer(proxy)
	defer front.Close()
	client := front.Client()
	client.Timeout = patience
	for name, body := range bodies {
		for _, chunked := range []bool{false, true} {
			for _, expects := range []bool{false, true} {
				var text io.Reader = strings.NewReader(body)
				if chunked {
					text = io.MultiReader(text)
				}
				attack, err := http.NewRequest(http.MethodPost, front.URL+"/other", text)
				if err != nil {
					c.t.Fatal(err)
				}
				if expects {
					attack.Header.Set("Expect", "100-continue")
				}
				victim, err := http.NewRequest(http.MethodGet, front.URL+"/items/1", nil)
				if err != nil {
					c.t.Fatal(err)
				}
				for _, step := range []struct {
					who     string
					request *http.Request
					status  int
				}{{"the attacker", attack, r.status}, {"the next client", victim, 201}, {"the client after that", victim, 201}} {
					res, err := client.Do(step.request)
					if step.request == attack && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
						continue // Go's server in front closed the connection while its client still sent
					}
					if err != nil {
						c.errorf("%s, a body %s (chunked: %v, Expect: %v): %s got no answer: %v", r.name, name, chunked, expects, step.who, err)
						continue
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
					lost := c.kit.ClosesAtOnce && step.request == attack && res.StatusCode == http.StatusBadGateway
					if res.StatusCode != step.status && !lost {
						c.errorf("%s, a body %s (chunked: %v, Expect: %v): %s was answered %d, want %d", r.name, name, chunked, expects, step.who, res.StatusCode, step.status)
					}
				}
			}
		}
	}
}
