package adaptertest

import (
	"context"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// ofSeveral are rules of NewTogether.
func ofSeveral() []rule {
	one, two := limiter{policy: tokens("one", 2), key: user}, limiter{policy: tokens("two", 9), key: user}
	with := func(l limiter, o option) app { l.with = o; return app{use: []limiter{l}} }
	return []rule{
		{
			name: "NewTogether takes from all limiters, or from none", app: with(together(one, two), 0),
			send: []exchange{
				{status: 200, left: "one 1, two 8", listed: "one, two", fields: []string{"X-RateLimit-Limit", "2", "X-RateLimit-Remaining", "1"}},
				{status: 200}, {status: 429, times: 2, listed: "one, two", lacks: "one"},
			},
			after: "one 0, two 7",
		},
		{
			name: "NewTogether asks each limiter for its own key", app: with(together(one, limiter{policy: tokens("all", 3), key: global("all")}), 0),
			send: []exchange{
				{request: from("ann"), status: 200, times: 2}, {request: from("ann"), status: 429},
				{request: from("bob"), status: 200}, {request: from("bob"), status: 429, lacks: "all"},
			},
		},
		{
			name: "a denial names the limits of all that lack tokens",
			app:  with(together(one, limiter{policy: tokens("four", 2), key: user}, two), 0),
			send: []exchange{{status: 200, times: 2}, {status: 429, lacks: "four, one"}},
		},
		{
			name: "NewTogether of one rule is New", app: with(together(one), 0),
			send: []exchange{{status: 200, times: 2, listed: "one"}, {status: 429, listed: "one"}},
		},
		{
			name: "a missing key of any limiter takes nothing", app: with(together(one, limiter{policy: tokens("two", 9), key: header("X-Nobody")}), 0),
			send: []exchange{{status: 400}, {request: from("error inside"), status: 500}}, after: "one 2, two 9",
		},
		{
			name: "the options hold for NewTogether too",
			app:  with(together(one, limiter{policy: counting(9, 50), key: user}), withCost|withUnits|withSkip|onDenied|onError),
			send: []exchange{
				{request: fields("Cost", "2", "Words", "20"), status: 200}, {status: 418, own: true, listed: "calls, one, words"},
				{request: from("error inside"), status: 418, own: true}, {request: fields("Skip", "1"), status: 200, plain: true, left: "nothing"},
				{status: 429, reply: reply{silent: true}},
			},
			after: "one 0, calls 7, words 30",
		},
		{
			name: "a request of NewTogether whose context ended takes nothing", send: []exchange{{status: 503}}, after: "one 2, two 9",
			app: app{use: []limiter{together(one, two)}, context: ended},
		},
		{
			name: "WithRefund returns the tokens of all limiters", app: with(together(one, two), withRefund),
			send: []exchange{{reply: reply{status: 500}, status: 500, ends: []string{"refund 500"}}, {status: 200, ends: []string{"refund 200"}}}, after: "one 1, two 8",
		},
		{
			name: "WithSettle settles in each limiter what it counts", app: with(together(two, limiter{policy: counting(9, 50), key: user}), withUnits|withSettle),
			send:  []exchange{{request: fields("Words", "20", "Settle", "5 words"), status: 200, ends: []string{"settle 200"}}},
			after: "two 8, calls 8, words 45",
		},
		{
			name: "AllFromContext has all decisions, the newest first",
			app:  stacked(limiter{policy: tokens("front", 9), key: user}, together(one, two), limiter{policy: tokens("behind", 7), key: user}),
			send: []exchange{
				{status: 200, left: "behind 6, one 1, two 8, front 8", listed: "behind, front, one, two", fields: []string{"X-RateLimit-Limit", "2"}},
				{status: 200}, {status: 429, listed: "front, one, two"},
			},
		},
	}
}

// ofHandlers are rules of Allow, which handlers call.
func ofHandlers() []rule {
	allow := func(p core.Policy) app { return app{use: []limiter{{kind: asAllow, policy: p}}} }
	gone := allow(failing(tokens("test", 2), core.FailClosed))
	gone.use[0].store = brokenStore{}
	return []rule{
		{
			name: "Allow sets the fields, and answers a denial", app: allow(tokens("test", 1)),
			send: []exchange{{request: from("ann"), status: 200, key: "ann"}, {request: from("ann"), status: 429, lacks: "test"}, {request: from("bob"), status: 200}},
		},
		{
			name: "HEAD is answered by Allow without a body", needs: overHTTP, app: allow(tokens("test", 1)),
			send: []exchange{{request: request{method: "HEAD"}, status: 200}, {request: request{method: "HEAD"}, status: 429}},
		},
		{name: "Allow answers an outage with 503", app: gone, send: []exchange{{status: 503, fields: []string{"Retry-After", "1"}}}},
		{
			name: "Allow refuses nothing in shadow mode", app: allow(shadowed(tokens("test", 1))),
			send: []exchange{{status: 200, times: 3, plain: true}},
		},
		{
			name: "the Result of Allow can be undone after the request", app: allow(tokens("test", 5)),
			send: []exchange{{request: from("all"), status: 200}, {request: from("bob"), status: 200}},
			script: func(c *check) {
				c.wantAfter("test 4", "before Undo")
				if err := c.results[0].Undo(c.T.Context()); err != nil {
					c.errorf("Undo: %v", err)
				}
			},
			after: "test 5",
		},
		{
			name: "behind a limiter handlers find the decision of Allow",
			app:  app{use: []limiter{{policy: tokens("outer", 9), key: user}, {kind: asAllow, policy: tokens("inner", 5)}}},
			send: []exchange{{status: 200, left: "inner 4, outer 8", listed: "inner, outer"}},
		},
	}
}

// ofEnds are rules of what happens when a handler has ended.
func ofEnds() (rules []rule) {
	inside := limiter{policy: tokens("inner", 1), key: header("X-User")}
	outer := func(with option) app {
		return stacked(limiter{policy: tokens("outer", 3), key: user, with: with}, inside)
	}
	rules = []rule{
		{
			name: "requests that were not charged do not end", app: keyed(tokens("test", 1), header("User"), withRefund, withSkip),
			send: []exchange{
				{request: from("ann"), status: 200, ends: []string{"refund 200"}}, {request: from("ann"), status: 429},
				{request: fields("Skip", "1"), status: 200, plain: true}, {status: 400},
			},
		},
		{
			name: "an inner limiter's refusal ends the outer's request", app: outer(withRefund),
			send: []exchange{
				{request: fields("X-User", "ann"), status: 200, ends: []string{"refund 200"}},
				{request: fields("X-User", "ann"), status: 429, ends: []string{"refund 429"}}, {status: 400, ends: []string{"refund 400"}, listed: "outer"},
			},
			after: "outer 2",
		},
		{
			name: "WithSettle sees the request, and corrects its units", app: limit(counting(9, 30), withUnits, withSettle),
			send: []exchange{
				{request: from("all", "Words", "10", "Settle", "3 words"), status: 200, ends: []string{"settle 200 all"}},
				{request: from("all", "Words", "10", "Settle", "11 words"), status: 200, ends: []string{"settle 200 all"}},
				{request: from("all", "Words", "10"), status: 200, ends: []string{"settle 200 all"}},
				{request: from("all", "Words", "10"), status: 429},
			},
			after: "calls 6, words 6",
		},
		{
			name: "a settle function that panics is no client's trouble", app: limit(counting(9, 30), withUnits, withSettle),
			send:  []exchange{{request: fields("Words", "10", "Settle", "panic"), status: 200, ends: []string{"settle 200"}}},
			after: "calls 8, words 20", logs: []string{"code=RL710"},
		},
	}
	for _, how := range []struct {
		name   string
		needs  need
		does   reply
		status int // of WithRefund and WithSettle, if it differs
	}{
		{name: "200"}, {name: "201", does: reply{status: 201}}, {name: "401", does: reply{status: 401}}, {name: "500", does: reply{status: 500}},
		{name: "an error 401", does: reply{status: 401, asError: true}}, {name: "an error 503", does: reply{status: 503, asError: true}},
		{name: "a panic", does: reply{panics: true}, status: 500},
		{name: "an answer that was cut off", needs: onNetHTTP, does: reply{status: 201, aborts: true}},
		{name: "an error that was cut off", needs: onNetHTTP, does: reply{status: 502, aborts: true}},
		{name: "a flush and a panic", needs: onNetHTTP, does: reply{flushes: true}},
	} {
		status := max(200, how.does.status, how.status)
		for with, name := range map[option]string{withRefund: "refund", withSettle: "settle"} {
			after := "test 4"
			if with == withRefund && status >= 400 {
				after = "test 5"
			}
			rules = append(rules, rule{
				name: name + " gets the client's status once: " + how.name, needs: how.needs, app: limit(tokens("test", 5), with), after: after,
				send: []exchange{{reply: how.does, status: status, ends: []string{name + " " + strconv.Itoa(status)}}},
			})
		}
		rules = append(rules, rule{
			name: "the slot comes back after " + how.name, needs: how.needs, app: limit(inFlight("slot", 1)),
			send: []exchange{{reply: how.does, status: status}}, after: "slot 1",
		})
	}
	return append(rules, rule{
		name: "after an informational status the client's own counts", needs: onNetHTTP, app: limit(tokens("test", 5), withRefund),
		script: func(c *check) {
			c.note(func() { c.reply = reply{status: 401, hints: true} })
			got := next(c, c.background(context.Background()), "a response") // some frameworks take 103 for the last status
			c.wantEnds("the request", []string{"refund " + strconv.Itoa(got.status)})
		},
	})
}

// ofClients are rules of clients that leave.
func ofClients() []rule {
	return []rule{
		{
			name: "tokens come back although the client has left", app: limit(tokens("test", 1), withRefund), after: "test 1",
			script: func(c *check) {
				c.leave(reply{status: 503})
				c.goOn <- struct{}{}
				c.wantEnds("the request", []string{"refund 503"})
			},
		},
		{
			name: "requests are settled although the client has left", app: limit(tokens("test", 5), withSettle), after: "test 4",
			script: func(c *check) {
				c.leave(reply{status: 500})
				c.goOn <- struct{}{}
				c.wantEnds("the request", []string{"settle 500"})
			},
		},
		{
			name: "the slot is taken until the handler returns", app: limit(inFlight("slot", 1)), after: "slot 1",
			script: func(c *check) {
				c.leave(reply{})
				c.wantAfter("slot 0", "while the handler is at work for a client that has left")
				time.Sleep(10 * time.Millisecond) // an adapter that sees the client leave would release it
				c.wantAfter("slot 0", "while the handler is at work for a client that has left")
				c.goOn <- struct{}{}
			},
		},
		{name: "a store is not waited for when the client leaves", needs: contextEnds, app: hanging(asNew), script: (*check).wantNoWait},
		{name: "Allow waits for no store when the client leaves", needs: contextEnds, app: hanging(asAllow), script: (*check).wantNoWait},
	}
}

// leave has the client leave while its handler waits.
func (c *check) leave(does reply) {
	c.T.Helper()
	ctx, leave := context.WithCancel(context.Background())
	answered := c.begin(ctx, does)
	leave()
	if got := next(c, answered, "the end of the request"); got.status != 0 {
		c.errorf("the premise: the client leaves, but it was answered %d", got.status)
	}
}
