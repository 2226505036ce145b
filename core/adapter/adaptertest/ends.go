package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing/iotest"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// answering is a handler that answers with a status, and failsWith one that
// reports it as the framework does.
func answering(status int) reply { return reply{Reply: Reply{Status: status, Body: "handler"}} }
func failsWith(status int) reply { return reply{Reply: Reply{Status: status, AsError: true}} }

// byHTTP is a handler of net/http.
func byHTTP(handler http.HandlerFunc) reply { return reply{Reply: Reply{HTTP: handler}} }

// cutOff is a handler that writes a status and a body, flushes and panics, as a
// reverse proxy does if its upstream hangs up. Without a status it flushes
// alone, which sends 200.
func cutOff(status int) reply {
	return byHTTP(func(w http.ResponseWriter, _ *http.Request) {
		if status != 0 {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "handler")
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
		panic(http.ErrAbortHandler)
	})
}

// endings are rules of what happens when a handler has ended.
var endings = []rule{
	{
		name: "requests that were not charged do not end", app: keyed(tokens("test", 1), header("User"), withRefund|withSkip),
		send: []exchange{
			{request: from("ann"), status: 200, ends: []string{"refund 200"}}, {request: from("ann"), status: 429},
			{request: having("Skip", "1"), status: 200, plain: true}, {status: 400},
		},
	},
	{
		name: "an inner limiter's refusal ends the outer's request", after: "outer 2",
		app: stacked(
			limiter{policy: tokens("outer", 3), key: user, with: withRefund},
			limiter{policy: tokens("inner", 1), key: header("X-User")},
		),
		send: []exchange{
			{request: having("X-User", "ann"), status: 200, ends: []string{"refund 200"}},
			{request: having("X-User", "ann"), status: 429, ends: []string{"refund 429"}},
			{status: 400, ends: []string{"refund 400"}, listed: "outer"},
		},
	},
	{
		name: "WithSettle sees the request, and corrects its units", app: limit(counting(9, 30), withUnits|withSettle),
		after: "calls 7, words 16",
		send: []exchange{
			{request: from("all", "Words", "10", "Settle", "3 words"), status: 200, ends: []string{"settle 200 all"}},
			{request: from("all", "Words", "10", "Settle", "11 words"), status: 200, ends: []string{"settle 200 all"}},
			{request: from("all", "Words", "20"), status: 429},
		},
	},
	{
		name: "a settle function that panics hurts no client", app: limit(counting(9, 30), withUnits|withSettle),
		after: "calls 8, words 20",
		send:  []exchange{{request: having("Words", "10", "Settle", "panic"), status: 200, ends: []string{"settle 200"}}},
		logs:  []string{"code=RL710"},
	},
}

// statuses are rules of the status with which requests end.
func statuses() (rules []rule) {
	for _, how := range []struct {
		name   string
		needs  need
		does   reply
		status int
	}{
		{name: "200", status: 200}, {name: "201", does: answering(201), status: 201},
		{name: "401", does: answering(401), status: 401},
		{name: "error 401", does: failsWith(401), status: 401}, {name: "error 503", does: failsWith(503), status: 503},
		{name: "panic", does: reply{panics: true}, status: 500},
		{name: "cut off", needs: onNetHTTP, does: cutOff(201), status: 201},
		{name: "cut off 502", needs: onNetHTTP, does: cutOff(502), status: 502},
		{name: "flush and panic", needs: onNetHTTP, does: cutOff(0), status: 200},
	} {
		for name, with := range map[string]option{"refund": withRefund, "settle": withSettle, "slot": 0} {
			r := rule{
				name: name + " ends with the client's status: " + how.name, needs: how.needs,
				app: limit(tokens("test", 5), with), after: "test 4",
			}
			send := exchange{reply: how.does, status: how.status, ends: []string{name + " " + strconv.Itoa(how.status)}}
			if with == withRefund && how.status >= 400 {
				r.after = "test 5"
			}
			if with == 0 {
				r.app, r.after, send.ends = limit(inFlight("slot", 1), 0), "slot 1", nil
			}
			r.send = []exchange{send}
			rules = append(rules, r)
		}
	}
	for status, err := range map[int]error{http.StatusInternalServerError: errors.New("handler"), http.StatusNotFound: ErrNotFound} {
		end := strconv.Itoa(status)
		rules = append(rules, rule{
			name: "a refund's status: of the app's error handler, " + end, needs: errorsOwn | overHTTP,
			app: limit(tokens("test", 5), withRefund), after: "test 5",
			send: []exchange{{reply: reply{Reply: Reply{Status: status, Err: err}}, status: status, ends: []string{"refund " + end}}},
		})
	}
	for name, answer := range unusual {
		rules = append(rules, rule{
			name: "a refund's status: " + name, needs: onNetHTTP, app: limit(tokens("test", 5), withRefund),
			script: func(c *check) {
				c.note(func() { c.reply = byHTTP(answer) })
				got := next(c, c.background(context.Background()), "a response") // some frameworks send another of several
				c.wantEnds("the request", []string{"refund " + strconv.Itoa(got.status)})
			},
		})
	}
	return rules
}

// unusual are handlers of net/http that answer in unusual ways.
var unusual = map[string]http.HandlerFunc{
	"early hints, then a status": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusUnauthorized)
	},
	"two statuses": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		w.WriteHeader(http.StatusOK)
	},
	"a copied body, then an error": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, strings.NewReader("handler"))
		http.Error(w, "late", http.StatusInternalServerError)
	},
	"an unreadable body, then an error": func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.Copy(w, iotest.ErrReader(errInside)); err != nil {
			http.Error(w, "unreadable", http.StatusUnauthorized)
		}
	},
	"flushed, then an error": func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		http.Error(w, "late", http.StatusInternalServerError)
	},
	"flushed the old way": func(w http.ResponseWriter, _ *http.Request) {
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
		http.Error(w, "late", http.StatusInternalServerError)
	},
}

// clients are rules of clients that leave.
var clients = []rule{
	{
		name: "tokens come back although the client has left", app: limit(tokens("test", 1), withRefund), after: "test 1",
		script: func(c *check) { c.leave("test 0", "refund 503") },
	},
	{
		name: "requests are settled although the client has left", app: limit(tokens("test", 5), withSettle), after: "test 4",
		script: func(c *check) { c.leave("test 4", "settle 503") },
	},
	{
		name: "the slot is taken until the handler returns", app: limit(inFlight("slot", 1), 0), after: "slot 1",
		script: func(c *check) { c.leave("slot 0") },
	},
	{
		name: "a store learns that the client has left", needs: contextEnds, app: hanging(asNew), script: (*check).wantNoWait,
	},
	{name: "a store learns it from Allow too", needs: contextEnds, app: hanging(asAllow), script: (*check).wantNoWait},
}

// leave has the client leave while its handler waits. Until the handler returns
// the limits have so much left.
func (c *check) leave(during string, ends ...string) {
	c.T.Helper()
	ctx, leave := context.WithCancel(context.Background())
	answered := c.begin(ctx, answering(503))
	leave()
	if got := next(c, answered, "the end of the request"); got.status != 0 {
		c.errorf("the premise: the client leaves, but it was answered %d", got.status)
	}
	for range 10 { // an adapter that notices it would release the slot
		time.Sleep(time.Millisecond)
		c.wantAfter(during, "while the handler is at work for a client that has left")
	}
	c.goOn <- struct{}{}
	c.wantEnds("the request", ends)
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

// streaming is a policy of a slot and of words.
var streaming = core.Policy{Name: "streaming", Limits: []core.Limit{core.InFlight(1).WithName("slot"), slow("words", 50).WithUnit("words")}}

// streams are rules of responses that go on for long, or when the handler has
// returned.
var streams = []rule{
	{
		name: "a stream has its slot until its end", app: limit(streaming, withUnits|withSettle), after: "slot 1, words 43",
		script: func(c *check) {
			answered := c.begin(context.Background(), reply{Reply: Reply{Status: 201, Stream: func(w io.Writer, flush func() error) {
				_, _ = io.WriteString(w, "begun, ")
				_ = flush()
				c.began <- struct{}{}
				<-c.goOn
				_, _ = io.WriteString(w, "over")
			}}}, "User", "all", "Words", "5", "Settle", "7 words")
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
		name: "WithSettle sees the request of a stream, and values",
		app:  app{values: map[string]any{"app.user": "ann"}, use: []limiter{{policy: streaming, key: user, with: withUnits | withSettle}}},
		script: func(c *check) {
			conn, err := c.server.dial(c.T.Context(), "")
			if err != nil {
				c.T.Fatal(err)
			}
			defer conn.Close()
			c.server.kept = conn
			stream := reply{Reply: Reply{Status: 201, Stream: func(w io.Writer, _ func() error) { _, _ = io.WriteString(w, "all") }}}
			for _, name := range []string{"bob", "eve"} { // the framework may use what it has of a request for the next one
				c.exchange("the stream of "+name, exchange{
					request: from(name), reply: stream, status: 201, ends: []string{"settle 201 " + name + " value:app.user:ann"},
				})
			}
		},
	},
	{
		name: "a stream whose client leaves ends once", app: limit(streaming, withUnits|withSettle),
		after: "slot 1, words 47",
		script: func(c *check) {
			ctx, leave := context.WithCancel(context.Background())
			defer leave()
			answered := c.begin(ctx, reply{Reply: Reply{Status: 201, Stream: func(w io.Writer, flush func() error) {
				for n := 0; ; n++ { // until the client has gone
					if _, err := fmt.Fprintln(w, n, strings.Repeat("x", 10_000)); err != nil || flush() != nil {
						return
					}
					if n == 3 {
						c.began <- struct{}{}
					}
				}
			}}}, "Words", "30", "Settle", "3 words")
			leave()
			if got := next(c, answered, "the end of the request"); got.status != 0 {
				c.errorf("the premise: the client leaves, but it was answered %d", got.status)
			}
			c.wantEnds("the stream", []string{"settle 201"})
		},
	},
	{
		name: "two limiters settle one stream", after: "outer 2, calls 7, words 45",
		app: stacked(
			limiter{policy: tokens("outer", 4), key: user, with: withRefund},
			limiter{policy: counting(9, 50), key: user, with: withUnits | withSettle},
		),
		send: []exchange{
			{
				request: having("Words", "5", "Settle", "5 words"), status: 201, ends: []string{"settle 201", "refund 201"},
				reply: reply{Reply: Reply{Status: 201, Stream: func(w io.Writer, _ func() error) { _, _ = io.WriteString(w, "all") }}},
			},
			{request: having("Words", "0"), status: 200, ends: []string{"settle 200", "refund 200"}},
		},
	},
}

// slots are rules of limits in flight.
var slots = []rule{
	{
		name: "a slot is taken while the handler runs", app: limit(inFlight("slot", 2), 0), after: "slot 2",
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
		name: "slots of several limiters each come back", after: "one 5, two 5, three 5, four 1",
		app: stacked(slotsOf("one", 5), slotsOf("two", 5), together(slotsOf("three", 5), slotsOf("four", 1))),
		script: func(c *check) {
			for range 2 {
				answered := c.begin(context.Background(), reply{})
				c.exchange("a second request", exchange{status: 429, lacks: "four"})
				c.wantAfter("one 4, two 4, three 4, four 0", "while a request is at work, after another was denied")
				c.goOn <- struct{}{}
				next(c, answered, "the response")
				c.wantAfter("one 5, two 5, three 5, four 1", "afterwards")
			}
		},
	},
}

func slotsOf(name string, n int) limiter { return limiter{policy: inFlight(name, n), key: user} }

// connections are rules of handlers that take over the connection.
var connections = []rule{
	{
		name: "an upgrade is over when its connection is", needs: overHTTP, app: limit(streaming, withUnits|withSettle),
		after: "slot 1, words 36", script: (*check).wantTalk,
	},
	{
		name: "a connection that was closed gives its slot back", needs: onNetHTTP, app: limit(inFlight("slot", 1), 0),
		after: "slot 1",
		script: func(c *check) {
			defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a garbage collection would release it too
			c.note(func() {
				c.reply = byHTTP(func(w http.ResponseWriter, _ *http.Request) {
					if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
						_ = conn.Close()
					}
				})
			})
			if got, err := io.ReadAll(c.open(upgrade)); err != nil || len(got) > 0 {
				c.errorf("the premise: the handler closes the connection without an answer, but the client read %q and %v", got, err)
			}
			c.wantAfter("slot 1", "after the handler has closed the connection")
		},
	},
	{
		name: "an upgrade that the framework drops loses no slot", needs: offNetHTTP,
		app: limit(
			core.Policy{Name: "slot", Limits: []core.Limit{core.InFlight(1).WithMaxHold(50 * time.Millisecond).WithName("slot")}},
			0,
		),
		script: func(c *check) {
			c.note(func() {
				c.reply = reply{Reply: Reply{Status: 101, Hijack: func(net.Conn) { c.errorf("the premise: it is not called") }}}
			})
			dropped := strings.Replace(upgrade, "Connection: Upgrade", "Connection: close", 1)
			if got, err := c.server.try(c.T.Context(), raw(dropped)); err != nil || got.status != http.StatusSwitchingProtocols {
				c.errorf("the upgrade was answered %d, %v", got.status, err)
			}
			// Nobody refers to the request any more, so the garbage collector
			// finds it.
			c.eventually(func() bool {
				c.clock.advance(time.Millisecond)
				runtime.GC()
				return c.allLeft("slot 1") == "slot 1"
			})
			c.wantAfter("slot 1", "after the framework has dropped the request")
		},
	},
}

// talk has a connection until its client hangs up.
func (c *check) talk(conn net.Conn) {
	c.began <- struct{}{}
	_, _ = io.Copy(io.Discard, conn)
}

// wantTalk checks that an upgrade has its slot, and is not settled, as long as
// its connection is open.
func (c *check) wantTalk() {
	c.T.Helper()
	c.note(func() { c.reply = reply{Reply: Reply{Status: 101, Hijack: c.talk}} })
	settled := "settle 101"
	if c.netHTTP {
		settled = "settle 200" // what the handler writes to the connection is not known
	}
	for range 2 {
		conn := c.open(strings.TrimSuffix(upgrade, "\r\n") + "Words: 5\r\nSettle: 7 words\r\n\r\n")
		got, err := http.ReadResponse(conn.in, nil)
		if err != nil || got.StatusCode != http.StatusSwitchingProtocols {
			c.T.Fatalf("the rule: %s\nthe upgrade was answered %v, %v", c.name, got, err)
		}
		next(c, c.began, "the talk") // fasthttp drops a connection that is closed before
		c.wantAfter("slot 0", "while the connection is open")
		c.wantEnds("while the connection is open", nil)
		if got := next(c, c.background(context.Background()), "a response"); got.status != http.StatusTooManyRequests {
			c.errorf("a request while the connection is open was answered %d, want 429", got.status)
		}
		_ = conn.Close()
		c.wantEnds("after the connection was closed", []string{settled})
		c.wantAfter("slot 1", "after the connection was closed")
	}
}

// takenOver are rules of a hijacked connection, such as a WebSocket's, whose
// handler then ends in some way. It counts as 200: else clients who hang up
// would get back what they took.
func takenOver() (rules []rule) {
	for _, how := range []string{"it returns", "an error", "a panic"} {
		for option, with := range map[string]option{"refund": withRefund, "settle": withSettle} {
			rules = append(rules, rule{
				name: "a hijacked connection counts as 200: " + option + ", " + how, needs: onNetHTTP, app: limit(tokens("test", 5), with),
				script: func(c *check) {
					c.note(func() {
						c.reply = byHTTP(func(w http.ResponseWriter, _ *http.Request) {
							conn, _, err := http.NewResponseController(w).Hijack()
							if err != nil {
								panic(err)
							}
							_, _ = io.WriteString(conn, switching)
							_ = conn.Close()
							if how == "a panic" {
								panic(http.ErrAbortHandler)
							}
						})
						c.reply.Status, c.reply.AsError = http.StatusInternalServerError, how == "an error"
					})
					if got := next(c, c.background(context.Background()), "a response"); got.status != http.StatusSwitchingProtocols {
						c.errorf("the premise: the client got %d", got.status)
					}
					c.wantEnds("the request", []string{option + " 200"})
				},
			})
		}
	}
	return rules
}
