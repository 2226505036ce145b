package adaptertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// slotsOfStreams checks responses that go on for long.
func (s *suite) slotsOfStreams() {
	s.eachStore("a slot is taken during a streamed response, and free after its last byte", func(c *trial) {
		l, began, end := c.limiter(inFlight("exports", 1)), make(chan struct{}, 1), make(chan struct{}, 2)
		app := c.serve(c.app(func(context.Context) Reply {
			return Reply{Status: http.StatusOK, Stream: func(w io.Writer, flush func() error) {
				_, _ = fmt.Fprintln(w, "begun")
				_ = flush()
				began <- struct{}{}
				<-end
				_, _ = fmt.Fprintln(w, "over")
			}}
		}, middleware{Limiter: l, Key: c.all()}))
		for i := range 2 {
			answered := c.begin(context.Background(), app, &work{began: began})
			c.wantTaken(l, 0, "in the middle of the stream")
			c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "a request in the middle of the stream")
			end <- struct{}{}
			got := next(c, answered, "the response")
			c.wantStatus(got, http.StatusOK, fmt.Sprintf("stream %d", i+1))
			if got.body != "begun\nover\n" {
				c.errorf("the stream was %q", got.body)
			}
			c.wantFree(l, 1, "after the stream")
		}
	})
	s.eachStore("the slot of a stream comes back when its client leaves", func(c *trial) {
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		l := c.limiter(inFlight("exports", 1))
		app := c.serve(c.app(func(context.Context) Reply {
			return Reply{Status: http.StatusOK, Stream: func(w io.Writer, flush func() error) {
				for n := 0; ; n++ { // until the client has gone
					if _, err := fmt.Fprintln(w, n, strings.Repeat("x", 10_000)); err != nil {
						return
					}
					if err := flush(); err != nil {
						return
					}
					if n == 3 {
						leave()
					}
				}
			}}
		}, middleware{Limiter: l, Key: c.all()}))
		if got, err := app.try(ctx, request{}); err == nil {
			c.errorf("the premise: the client leaves, but it was answered %d", got.status)
		}
		c.wantFree(l, 1, "after the client has left")
	})
}

// slotsOfClients checks clients that leave while handlers run.
func (s *suite) slotsOfClients() {
	s.eachStore("a slot is taken until the handler returns although the client has left, and then comes back", func(c *trial) {
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		l, w := c.limiter(inFlight("exports", 1)), newWork(Reply{Status: http.StatusOK})
		app := c.serve(c.app(w.handle, middleware{Limiter: l, Key: c.all()}))
		answered := c.begin(ctx, app, w)
		leave()
		c.wantAnswer(answered, 0, "a request whose client left")
		c.wantTaken(l, 0, "while the handler is at work for a client that left")
		w.end <- struct{}{}
		c.wantFree(l, 1, "after the handler has returned")
	})
}

// slotsOfTimeouts checks handlers that a timeout middleware in front has given
// up on.
func (s *suite) slotsOfTimeouts() {
	for what, reply := range map[string]Reply{
		"returns":          {Status: http.StatusOK},
		"returns an error": {Status: http.StatusConflict, AsError: true},
		"returns a stream": {Status: http.StatusOK, Stream: func(w io.Writer, _ func() error) { _, _ = io.WriteString(w, "late") }},
	} {
		s.eachStore("a slot is taken until a handler "+what+" that a timeout middleware has given up on", func(c *trial) {
			l, w := c.limiter(inFlight("exports", 1)), newWork(reply)
			described := c.app(w.handle, middleware{Limiter: l, Key: c.all()})
			described.Timeout = 100 * time.Millisecond
			app := c.serve(described)
			answered := c.begin(context.Background(), app, w)
			select {
			case got := <-answered:
				if got.status < 400 {
					c.errorf("the premise: a request that takes too long is answered with an error, and not with %d", got.status)
				}
			case <-time.After(patience):
				c.errorf("the premise: there is a timeout, but the request was not answered")
			}
			c.wantTaken(l, 0, "while the handler goes on")
			w.end <- struct{}{}
			c.wantFree(l, 1, "after the handler has returned")
		})
	}
}

// slotsTakenOver checks handlers that take over the connection.
func (s *suite) slotsTakenOver() {
	k := s.kit
	over := "the handler returns"
	if !k.Streams {
		over = "the function returns that has it"
	}
	talks := make(chan struct{}, 10)
	talk := func(conn net.Conn) {
		talks <- struct{}{}
		if k.Streams { // otherwise the framework has sent it
			_, _ = io.WriteString(conn, switching)
		}
		_, _ = io.Copy(io.Discard, conn) // until the client hangs up
		_ = conn.Close()
	}
	s.eachStore("the slot of a connection that a handler took over is taken until "+over, func(c *trial) {
		c.untilClosed(Reply{Status: http.StatusSwitchingProtocols, Hijack: talk}, talks)
	})
	s.eachStore("the slot of a handler that took over the connection and closed it comes back at once", func(c *trial) {
		l := c.limiter(inFlight("exports", 1))
		app := c.serve(c.app(func(context.Context) Reply { return Reply{Closed: true} }, middleware{Limiter: l, Key: c.all()}))
		defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a garbage collection would release it too
		conn := c.dial(app)
		_, _ = io.WriteString(conn, upgrade)
		if got, err := io.ReadAll(conn); err != nil || len(got) > 0 {
			c.errorf("the premise: the handler closes the connection without an answer, but the client read %q and %v", got, err)
		}
		c.wantFree(l, 1, "after the handler has closed the connection")
	})
	if k.Streams {
		s.eachStore("the slot of a reverse proxy's upgrade is taken until the client hangs up", func(c *trial) {
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					c.errorf("%v", err)
					return
				}
				talk(conn)
			}))
			defer upstream.Close()
			to, err := url.Parse(upstream.URL)
			if err != nil {
				c.t.Fatal(err)
			}
			c.untilClosed(Reply{Proxy: httputil.NewSingleHostReverseProxy(to)}, talks)
		})
		return
	}
	s.rule("the slot of an upgrade comes back although the framework never calls the function that takes over the connection", func(c *trial) {
		l := c.limiter(core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(1).WithMaxHold(50 * time.Millisecond)}})
		app := c.serve(c.app(func(context.Context) Reply {
			return Reply{Status: http.StatusSwitchingProtocols, Hijack: func(net.Conn) { c.errorf("the premise: the function is not called") }}
		}, middleware{Limiter: l, Key: c.all()}))
		if got := app.raw("GET /other HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\nUpgrade: talk\r\n\r\n"); got.status != http.StatusSwitchingProtocols {
			c.errorf("the upgrade was answered %d", got.status)
		}
		c.wantDropped(l)
	})
}

// upgrade asks for an upgrade, and switching is the answer.
const (
	upgrade   = "GET /other HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n"
	switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n"
)

// untilClosed checks that an upgrade has its slot as long as its connection is
// open. talks receives when its talk has begun.
func (c *trial) untilClosed(reply Reply, talks <-chan struct{}) {
	c.t.Helper()
	l := c.limiter(inFlight("exports", 1))
	app := c.serve(c.app(func(context.Context) Reply { return reply }, middleware{Limiter: l, Key: c.all()}))
	for range 2 {
		conn := c.upgrade(app)
		if !c.within(talks) { // fasthttp drops a connection that is closed before
			c.errorf("the premise: the connection is taken over")
		}
		c.wantTaken(l, 0, "while the connection is open")
		c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "a request while the connection is open")
		_ = conn.Close()
		c.wantFree(l, 1, "after the connection was closed")
	}
}

// slotsThatAreKept checks handlers whose work outlasts them.
func (s *suite) slotsThatAreKept() {
	k := s.kit
	s.eachStore("a slot is the app's once a handler has called Hold", func(c *trial) {
		talks := make(chan struct{}, 10)
		for what, reply := range map[string]Reply{
			"an answer": {Status: http.StatusOK},
			"an error":  {Status: http.StatusConflict, AsError: true},
			"a connection that was taken over": {Status: http.StatusSwitchingProtocols, Hijack: func(conn net.Conn) {
				if k.Streams {
					_, _ = io.WriteString(conn, switching)
				}
				talks <- struct{}{}
			}},
		} {
			if k.RPC && reply.Hijack != nil {
				continue
			}
			l, over := c.limiter(inFlight("exports", 1)), make(chan struct{}, 10)
			var res core.Result
			reply.Decided = func(r core.Result, _ bool) {
				if res = r; res.Hold(context.Background()) != nil {
					c.errorf("the slot can't be held")
				}
			}
			app := c.serve(c.app(func(context.Context) Reply { return reply }, middleware{Limiter: l, Key: c.all(),
				Options: []anyOption{k.WithSettle(func(Header, int) core.Units { over <- struct{}{}; return nil })}}))
			for range 2 {
				if reply.Hijack != nil {
					conn := c.upgrade(app)
					if !c.within(talks) { // fasthttp drops a connection that is closed before
						c.errorf("the premise: the function is called")
					}
					_ = conn.Close()
				} else {
					c.wantStatus(app.send(request{}), reply.Status, what)
				}
				if !c.within(over) {
					c.errorf("the middleware never noticed that the response is over, with %s", what)
				}
				for range 10 { // a release that is sent after the response, and should not be, would show
					c.wantTaken(l, 0, "after "+what+" whose handler held the slot")
					c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "a request after "+what)
				}
				if err := res.Release(context.Background()); err != nil {
					c.errorf("Release: %v", err)
				}
				c.wantFree(l, 1, "after the app has released the slot")
			}
		}
	})
}

// dial returns a connection that ends after patience.
func (c *trial) dial(app *server) net.Conn {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := app.l.dial(ctx, "192.0.2.1:4713")
	if err != nil {
		c.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// upgrade has a handler take over the connection that it returns.
func (c *trial) upgrade(app *server) net.Conn {
	c.t.Helper()
	conn := c.dial(app)
	_, _ = io.WriteString(conn, upgrade)
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		c.t.Fatalf("the rule: %s\nan upgrade: %v", c.rule, err)
	}
	_ = got.Body.Close()
	c.wantStatus(response{status: got.StatusCode, header: got.Header}, http.StatusSwitchingProtocols, "an upgrade")
	return conn
}
