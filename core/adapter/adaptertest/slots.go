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
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// ofStreams are rules of responses that go on when the handler has returned, or
// for long.
func ofStreams() []rule {
	streams := core.Policy{Name: "streams", Limits: []core.Limit{core.InFlight(1).WithName("slot"), slow("words", 50).WithUnit("words")}}
	twice := limiter{policy: counting(9, 50), key: user, with: withUnits | withSettle}
	return []rule{
		{
			name: "a stream holds its slot, and is settled, until its end", app: limit(streams, withUnits, withSettle), after: "slot 1, words 43",
			script: func(c *check) {
				answered := c.begin(context.Background(), reply{status: 201, stream: func(w io.Writer, flush func() error) {
					_, _ = io.WriteString(w, "begun, ")
					_ = flush()
					c.wait()
					_, _ = io.WriteString(w, "over")
				}}, "User", "all", "Words", "5", "Settle", "7 words")
				c.wantAfter("slot 0, words 45", "in the middle of the stream")
				c.wantEnds("in the middle of the stream", nil)
				c.exchange("a request in the middle of the stream", exchange{status: 429})
				c.goOn <- struct{}{}
				if got := next(c, answered, "the response"); got.body != "begun, over" {
					c.errorf("the stream was %q", got.body)
				}
				c.wantEnds("the stream", []string{"settle 201 all"})
			},
		},
		{
			name: "a stream whose client leaves ends once", app: limit(streams, withUnits, withSettle), after: "slot 1, words 47",
			script: func(c *check) {
				ctx, leave := context.WithCancel(context.Background())
				defer leave()
				answered := c.begin(ctx, reply{status: 201, stream: func(w io.Writer, flush func() error) {
					for n := 0; ; n++ { // until the client has gone
						if _, err := fmt.Fprintln(w, n, strings.Repeat("x", 10_000)); err != nil || flush() != nil {
							return
						}
						if n == 3 {
							c.began <- struct{}{}
						}
					}
				}}, "Words", "30", "Settle", "3 words")
				leave()
				if got := next(c, answered, "the end of the request"); got.status != 0 {
					c.errorf("the premise: the client leaves, but it was answered %d", got.status)
				}
				c.wantEnds("the stream", []string{"settle 201"})
			},
		},
		{
			name: "two limiters settle one stream", after: "calls 7, words 45",
			app: stacked(limiter{policy: tokens("outer", 9), key: user, with: withSettle}, twice),
			send: []exchange{
				{
					request: fields("Words", "5", "Settle", "5 words"), status: 201, ends: []string{"settle 201", "settle 201"},
					reply: reply{status: 201, stream: func(w io.Writer, _ func() error) { _, _ = io.WriteString(w, "all") }},
				},
				{request: fields("Words", "0"), status: 200, ends: []string{"settle 200", "settle 200"}},
			},
		},
	}
}

// wait tells begin that a handler has begun, and waits until it is to go on.
func (c *check) wait() {
	c.began <- struct{}{}
	<-c.goOn
}

// ofSlots are rules of limits in flight.
func ofSlots() []rule {
	slot := func(name string, n int) limiter { return limiter{policy: inFlight(name, n), key: user} }
	return []rule{
		{
			name: "a slot is taken while the handler runs", app: limit(inFlight("slot", 2)), after: "slot 2",
			script: func(c *check) {
				first, second := c.begin(context.Background(), reply{}), c.begin(context.Background(), reply{})
				c.wantAfter("slot 0", "while two requests are at work")
				c.exchange("a third request", exchange{status: 429})
				c.goOn <- struct{}{}
				c.goOn <- struct{}{}
				next(c, first, "the first response")
				next(c, second, "the second response")
				for i := range 10 { // one after the other, so each finds a slot free
					c.exchange(fmt.Sprintf("request %d after these", i+1), exchange{status: 200})
				}
			},
		},
		{
			name: "slots of several limiters each come back", after: "app 5, route 5, one 5, two 1",
			app: stacked(slot("app", 5), slot("route", 5), together(slot("one", 5), slot("two", 1))),
			script: func(c *check) {
				for range 2 {
					answered := c.begin(context.Background(), reply{})
					c.wantAfter("app 4, route 4, one 4, two 0", "while a request is at work")
					c.exchange("a second request", exchange{status: 429, lacks: "two"})
					c.wantAfter("app 4, route 4, one 4, two 0", "after a request that was denied")
					c.goOn <- struct{}{}
					next(c, answered, "the response")
					c.wantAfter("app 5, route 5, one 5, two 1", "afterwards")
				}
			},
		},
	}
}

// ofConnections are rules of handlers that take over the connection.
func ofConnections() []rule {
	app := limit(inFlight("slot", 1))
	return []rule{
		{
			name: "the slot of an upgrade is taken until it ends", needs: overHTTP, app: app, after: "slot 1",
			script: func(c *check) {
				c.note(func() { c.reply = reply{status: 101, hijack: c.talk} })
				c.wantTalk()
			},
		},
		{
			name: "the slot of a proxy's upgrade is taken until it ends", needs: onNetHTTP, app: app, after: "slot 1",
			script: func(c *check) {
				upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
						_, _ = io.WriteString(conn, switching)
						c.talk(conn)
						_ = conn.Close()
					}
				}))
				defer upstream.Close()
				address, err := url.Parse(upstream.URL)
				if err != nil {
					c.T.Fatal(err)
				}
				c.note(func() { c.reply = reply{proxy: httputil.NewSingleHostReverseProxy(address)} })
				c.wantTalk()
			},
		},
		{
			name: "the slot of a connection that was closed comes back", needs: onNetHTTP, app: app, after: "slot 1",
			script: func(c *check) {
				defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a garbage collection would release it too
				c.note(func() { c.reply = reply{closes: true} })
				conn := c.open(upgrade)
				if got, err := io.ReadAll(conn); err != nil || len(got) > 0 {
					c.errorf("the premise: the handler closes the connection without an answer, but the client read %q and %v", got, err)
				}
				c.wantAfter("slot 1", "after the handler has closed the connection")
			},
		},
		{
			name: "an upgrade that the framework drops loses no slot", needs: offNetHTTP,
			app: limit(core.Policy{Name: "slot", Limits: []core.Limit{core.InFlight(1).WithMaxHold(50 * time.Millisecond).WithName("slot")}}),
			script: func(c *check) {
				c.note(func() {
					c.reply = reply{status: 101, hijack: func(net.Conn) { c.errorf("the premise: it is not called") }}
				})
				dropped := strings.Replace(upgrade, "Connection: Upgrade", "Connection: close", 1)
				if got, err := c.server.sendRaw(c.T.Context(), requestOf(dropped)); err != nil || got.status != http.StatusSwitchingProtocols {
					c.errorf("the upgrade was answered %d, %v", got.status, err)
				}
				// Nobody refers to the request any more, so the garbage
				// collector finds it.
				c.eventually(func() bool {
					c.clock.advance(time.Millisecond)
					runtime.GC()
					return c.allLeft("slot 1") == "slot 1"
				})
				c.wantAfter("slot 1", "after the framework has dropped the request")
			},
		},
	}
}

// talk has a connection until its client hangs up.
func (c *check) talk(conn net.Conn) {
	c.began <- struct{}{}
	_, _ = io.Copy(io.Discard, conn)
}

// wantTalk checks that an upgrade has its slot as long as its connection is
// open.
func (c *check) wantTalk() {
	c.T.Helper()
	for range 2 {
		conn := c.open(upgrade)
		got, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || got.StatusCode != http.StatusSwitchingProtocols {
			c.T.Fatalf("the rule: %s\nthe upgrade was answered %v, %v", c.name, got, err)
		}
		next(c, c.began, "the talk") // fasthttp drops a connection that is closed before
		c.wantAfter("slot 0", "while the connection is open")
		if got := next(c, c.background(context.Background()), "a response"); got.status != http.StatusTooManyRequests {
			c.errorf("a request while the connection is open was answered %d, want 429", got.status)
		}
		_ = conn.Close()
		c.wantAfter("slot 1", "after the connection was closed")
	}
}

// hanging is an app whose store answers when the request's context ends.
func hanging(kind kind) app {
	hangs := hangingStore{asked: make(chan struct{}, 1), left: make(chan struct{}, 1)}
	return app{use: []limiter{{kind: kind, policy: tokens("test", 1), key: user, store: hangs}}}
}

type hangingStore struct{ asked, left chan struct{} }

func (h hangingStore) Do(ctx context.Context, _ store.Request) (store.Answer, error) {
	h.asked <- struct{}{}
	<-ctx.Done()
	h.left <- struct{}{}
	return store.Answer{}, ctx.Err()
}

func (hangingStore) Reset(context.Context, string, string) error { return nil }

// wantNoWait checks that the store learns that the client has left.
func (c *check) wantNoWait() {
	hangs, _ := c.use[0].store.(hangingStore)
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	c.background(ctx)
	next(c, hangs.asked, "the question to the store")
	leave()
	next(c, hangs.left, "the end of the question")
}
