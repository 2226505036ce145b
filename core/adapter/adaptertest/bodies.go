package adaptertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// bodies are rules of requests whose body nobody reads. What a refused
// request leaves of its body on the connection must not be taken for requests:
// a proxy in front would give their answers to other clients. net/http itself
// takes care of it.
func bodies() (rules []rule) {
	denied := limiter{policy: tokens("test", 1), key: user, with: withCost}
	answered, failed, several := denied, denied, denied
	answered.with |= onDenied
	failed.key, failed.with = header("X-Nobody"), onError
	several = together(several, limiter{policy: tokens("all", 1), key: global("all")})
	for _, refused := range []struct {
		name   string
		by     limiter
		fields string
		status int
		needs  need
		before []exchange
	}{
		{name: "denial", by: denied, fields: "Cost: 9", status: 429},
		{name: "OnDenied", by: answered, fields: "Cost: 9", status: 418},
		{name: "NewTogether", by: several, fields: "Cost: 9", status: 429},
		{name: "error", by: denied, fields: "User: error inside", status: 500},
		{name: "OnError", by: failed, fields: "X: y", status: 418},
		{
			name: "outage", by: limiter{policy: failing(tokens("down", 1), core.FailClosed), store: brokenStore{}, key: user},
			fields: "X: y", status: 503,
		},
		{
			name: "Allow", by: limiter{kind: asAllow, policy: tokens("allow", 1)}, fields: "User: ann", status: 429,
			before: []exchange{{request: from("ann"), status: 200}},
		},
		{name: "client error", by: denied, fields: "User: error 401", status: 401, needs: errorsOwn},
	} {
		rules = append(rules, rule{
			name: "no body is read as requests: " + refused.name, needs: offNetHTTP | refused.needs,
			app: app{route: []limiter{refused.by}}, send: refused.before,
			script: func(c *check) {
				c.smuggle(false, refused.fields, refused.status)
				c.smuggle(true, refused.fields, refused.status)
			},
		})
	}
	return append(rules, rule{
		name: "a connection without a valid request takes no token", needs: overHTTP,
		app: limit(tokens("test", 9), withRefund),
		script: func(c *check) {
			for _, text := range []string{
				"GET /other HTTP/1.1\r\nHost app.test\r\n\r\n", "GET /other\x00 HTTP/9.9\r\n: x\r\n\r\n",
				"POST /other HTTP/1.1\r\nHost: app.test\r\nContent-Length: x\r\n\r\n",
				"GET /other HTTP/1.1\r\nHost: app.test\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n",
			} {
				if got, err := c.server.try(c.T.Context(), raw(text)); err != nil || got.status < 400 {
					c.errorf("the premise: %.60q is no valid request, and was answered %d, %v", text, got.status, err)
				}
			}
			c.exchange("the first valid request", exchange{status: 200, left: "test 8", ends: []string{"refund 200"}})
		},
	})
}

// smuggle serves the app on TCP, and sends requests with requests in their
// bodies, and then another on the same connection. Only these two may be
// answered, or the first alone if the server closes the connection.
func (c *check) smuggle(streamed bool, fields string, status int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.T.Fatal(err)
	}
	defer listener.Close()
	served := c.app
	served.streams = streamed
	go func() { _ = c.adapter.serve(listener, served, c.record) }()
	const inside = "GET /free HTTP/1.1\r\nHost: app.test\r\n\r\n"
	const nextRequest = "GET /items/1 HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n"
	for _, body := range []string{
		strings.Repeat(inside, 3),
		strings.Repeat(inside, 3000),
		strings.Repeat("x", 8<<10) + strings.Repeat(inside, 50), // behind what fasthttp reads before
		strings.Repeat("x", 4<<10) + strings.Repeat(inside, 50), // behind a whole chunk
	} {
		for _, chunked := range []bool{false, true} {
			for _, expects := range []string{"", "Expect: 100-continue\r\n"} {
				length, sent := fmt.Sprint("Content-Length: ", len(body)), body
				if chunked {
					length, sent = "Transfer-Encoding: chunked", inChunks(body)
				}
				head := "POST /other HTTP/1.1\r\nHost: app.test\r\n" + fields + "\r\n" + expects + length + "\r\n\r\n"
				got, err := answersTo(listener.Addr(), head, sent+nextRequest, expects != "")
				what := fmt.Sprintf("a body of %d bytes (streamed: %v, chunked: %v, Expect: %v)", len(body), streamed, chunked, expects != "")
				if err != nil {
					c.errorf("%s: after the answers %v: %v", what, got, err)
				}
				if len(got) == 0 || got[0] != status || len(got) > 2 {
					c.errorf("%s: the answers on the connection are %v, want %d, and then nothing or that of the next request", what, got, status)
				}
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.smuggled > 0 {
		c.errorf("%d requests in bodies reached a handler", c.smuggled)
	}
}

// answersTo sends a request's head, and its body with what follows, which waits
// for an answer if the client expects one. It returns the statuses of all
// answers until the connection ends.
func answersTo(to net.Addr, head, rest string, expects bool) (got []int, err error) {
	conn, err := net.Dial(to.Network(), to.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience.get()))
	if _, err := io.WriteString(conn, head); err != nil {
		return nil, err
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
	for in := bufio.NewReader(conn); ; {
		res, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		if e := net.Error(nil); errors.As(err, &e) && e.Timeout() {
			return got, errors.New("the connection is neither used nor closed")
		} else if err != nil {
			return got, nil
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		send() // also if it was answered: so does an attacker
		if res.StatusCode != http.StatusContinue {
			got = append(got, res.StatusCode)
		}
	}
}

// inChunks is a chunked body.
func inChunks(body string) string {
	var b strings.Builder
	for rest := body; rest != ""; {
		n := min(len(rest), 4<<10)
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, rest[:n])
		rest = rest[n:]
	}
	return b.String() + "0\r\n\r\n"
}
