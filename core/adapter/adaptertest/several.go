package adaptertest

import (
	"context"
	"net/http"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

var (
	one = limiter{policy: tokens("one", 2), key: user}
	two = limiter{policy: tokens("two", 9), key: user}
)

// joint is an app with NewTogether.
func joint(with option, rules ...limiter) app {
	l := together(rules...)
	l.with = with
	return app{use: []limiter{l}}
}

// several are rules of NewTogether.
var several = []rule{
	{
		name: "NewTogether takes from all limiters, or from none", app: joint(0, one, two), after: "one 0, two 7",
		send: []exchange{
			{
				status: 200, left: "one 1", listed: "one, two",
				fields: []string{"X-RateLimit-Limit", "2", "X-RateLimit-Remaining", "1"},
			},
			{status: 200}, {status: 429, times: 2, listed: "one, two", lacks: "one"},
		},
	},
	{
		name: "NewTogether asks each limiter for its own key",
		app:  joint(0, one, limiter{policy: tokens("all", 3), key: global("all")}),
		send: []exchange{
			{request: from("ann"), status: 200, times: 2}, {request: from("ann"), status: 429},
			{request: from("bob"), status: 200}, {request: from("bob"), status: 429, lacks: "all"},
		},
	},
	{
		name: "a missing key of any limiter takes nothing",
		app:  joint(0, one, limiter{policy: tokens("two", 9), key: header("X-Nobody")}),
		send: []exchange{{status: 400}, {request: from("error inside"), status: 500}}, after: "one 2, two 9",
	},
	{
		name: "the options hold for NewTogether too", after: "one 0, calls 7, words 30",
		app: joint(withCost|withUnits|withSkip|onDenied|onError, one, limiter{policy: counting(9, 50), key: user}),
		send: []exchange{
			{request: having("Cost", "2", "Words", "20"), status: 200}, {status: 418, own: true, listed: "calls, one, words"},
			{request: from("error inside"), status: 418, own: true},
			{request: having("Skip", "1"), status: 200, plain: true, left: "nothing"},
			{status: 429, reply: reply{silent: true}},
		},
	},
	{
		name: "WithRefund returns the tokens of all limiters", app: joint(withRefund, one, two), after: "one 1, two 8",
		send: []exchange{
			{reply: answering(500), status: 500, ends: []string{"refund 500"}}, {status: 200, ends: []string{"refund 200"}},
		},
	},
	{
		name: "AllFromContext has all decisions, the newest first",
		app: stacked(
			limiter{policy: tokens("front", 9), key: user}, together(one, two), limiter{policy: tokens("behind", 7), key: user},
		),
		send: []exchange{
			{
				status: 200, left: "behind 6, one 1, front 8", listed: "behind, front, one, two",
				fields: []string{"X-RateLimit-Limit", "2"},
			},
			{status: 200}, {status: 429, listed: "front, one, two"},
		},
	},
}

// again are rules of requests that the app gives to its router again, so that
// they pass the same middleware a second time.
var again = []rule{
	{
		name: "a request that is routed again is charged once", needs: routesAgain, app: limit(tokens("test", 2), withRefund),
		script: (*check).wantOneCharge, after: "test 0",
	},
	{
		name: "NewTogether charges it once too", needs: routesAgain, app: joint(withRefund, one, two),
		script: (*check).wantOneCharge, after: "one 0, two 7",
	},
}

func (c *check) wantOneCharge() {
	for i, status := range []int{200, 200, 429} {
		c.note(func() { c.reply = reply{Reply: Reply{Again: "/items/1"}} })
		got := next(c, c.background(context.Background()), "a response")
		if got.status != status {
			c.errorf("request %d was answered %d, want %d", i+1, got.status, status)
		}
		if status == http.StatusOK {
			c.wantEnds("the request", []string{"refund 200"})
		}
	}
	first := c.use[0].policy.Name
	want := []string{first + " 1", first + " 1", first + " 0", first + " 0"} // a request has one handler behind the other
	if !slices.Equal(c.handled, want) {
		c.errorf("handlers found %q, want %q", c.handled, want)
	}
}

// allowing is an app whose handlers call Allow.
func allowing(p core.Policy) app { return app{use: []limiter{{kind: asAllow, policy: p}}} }

// handlers are rules of Allow.
var handlers = []rule{
	{
		name: "Allow sets the fields, and answers a denial", app: allowing(tokens("test", 1)),
		send: []exchange{
			{request: from("ann"), status: 200, key: "ann"}, {request: from("ann"), status: 429, lacks: "test"},
			{request: from("bob"), status: 200},
		},
	},
	{
		name: "Allow answers an outage with 503", send: []exchange{{status: 503, fields: []string{"Retry-After", "1"}}},
		app: app{use: []limiter{{kind: asAllow, policy: failing(tokens("test", 2), core.FailClosed), store: brokenStore{}}}},
	},
	{
		name: "the Result of Allow can be undone afterwards", app: allowing(tokens("test", 5)),
		send: []exchange{{request: from("all"), status: 200}, {request: from("bob"), status: 200}}, script: (*check).undo,
		after: "test 5",
	},
	{
		name: "behind a limiter handlers find Allow's decision",
		app:  app{use: []limiter{{policy: tokens("outer", 9), key: user}, {kind: asAllow, policy: tokens("inner", 5)}}},
		send: []exchange{{status: 200, left: "inner 4, outer 8", listed: "inner, outer"}},
	},
}
