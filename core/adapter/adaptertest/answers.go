package adaptertest

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// ofAnswers are rules of what is answered to requests that were decided.
func ofAnswers() []rule {
	teapot := exchange{status: 418, own: true}
	return []rule{
		{
			name: "a denied request does not reach the handler", app: limit(tokens("test", 2)),
			send:  []exchange{{status: 200, times: 2}, {status: 429, times: 2, lacks: "test"}},
			after: "test 0",
		},
		{
			name: "a denial names the limits that lack tokens", needs: problems,
			app:  limit(core.Policy{Name: "test", Limits: []core.Limit{slow("enough", 9), slow("scarce", 1)}}),
			send: []exchange{{status: 200}, {status: 429, lacks: "scarce"}},
		},
		{
			name: "a cost above the capacity is a denial without Retry-After", app: limit(tokens("test", 3), withCost),
			send:  []exchange{{request: fields("Cost", "4"), status: 429, never: true}},
			after: "test 3",
		},
		{
			name: "OnDenied replaces the answer and keeps the fields", app: limit(tokens("test", 1), onDenied),
			send: []exchange{{status: 200}, teapot},
			script: func(c *check) {
				if res, ok := c.refused[0].(core.Result); !ok || res.Allowed || res.RetryAfter <= 0 || len(res.Limits()) != 1 {
					c.errorf("OnDenied got %+v, want the denial", c.refused)
				}
			},
		},
		{
			name: "the default answer follows if OnDenied writes nothing", app: limit(tokens("test", 1), onDenied),
			send:   []exchange{{status: 200}, {reply: reply{silent: true}, status: 429}},
			script: (*check).wantOneRefused,
		},
		{
			name: "HEAD is limited like GET, and answered without body", needs: overHTTP, app: limit(tokens("test", 1)),
			send: []exchange{{request: request{method: "HEAD"}, status: 200}, {request: request{method: "HEAD"}, status: 429}},
		},
		{
			name: "a POST can be denied before its body is read", needs: overHTTP, app: limit(tokens("test", 1)),
			send: []exchange{{request: post(20_000), status: 200}, {request: post(20_000), status: 429, times: 2}},
		},
		{
			name: "without a limiter there is no decision",
			send: []exchange{{status: 200, left: "nothing", plain: true}},
		},
		{
			name: "FromContext returns the decision", app: limit(tokens("test", 3)),
			send: []exchange{{status: 200, left: "test 2"}, {status: 200, left: "test 1"}, {status: 200, left: "test 0"}},
		},
		{
			name: "shadow mode charges, and answers as without a limiter", app: keyed(shadowed(tokens("test", 2)), firstOf(header("User"))),
			send: []exchange{
				{request: from("all"), status: 200, times: 4, plain: true},
				{status: 200, plain: true}, // no key
			},
		},
		{
			name: "as many concurrent requests pass as the capacity allows", app: limit(tokens("test", 53)),
			script: func(c *check) {
				const clients, each = 8, 10
				var allowed, denied atomic.Int64
				var group sync.WaitGroup
				for range clients {
					group.Go(func() {
						for range each {
							switch got := next(c, c.background(c.T.Context()), "a response"); got.status {
							case 200:
								allowed.Add(1)
							case 429:
								denied.Add(1)
							}
						}
					})
				}
				group.Wait()
				if allowed.Load() != 53 || denied.Load() != clients*each-53 {
					c.errorf("%d requests passed and %d were denied, want 53 of %d to pass", allowed.Load(), denied.Load(), clients*each)
				}
			},
		},
	}
}

// wantOneRefused checks that OnDenied or OnError was called once.
func (c *check) wantOneRefused() {
	if len(c.refused) != 1 {
		c.errorf("the app's own function was called %d times, want once", len(c.refused))
	}
}

// wantError checks an error that OnError got.
func (c *check) wantError(got any, want error) {
	if err, _ := got.(error); !errors.Is(err, want) {
		c.errorf("OnError got %v, want %v", got, want)
	}
}

// ofHeaders are rules of header fields. The clock stands at a quarter of
// 1767323045. The limit has 5 tokens and gains 3 in 7 seconds.
func ofHeaders() (rules []rule) {
	burst := core.Limit{Name: "burst", Capacity: 5, RefillRate: 3, RefillInterval: 7 * time.Second}
	legacy := [2]string{
		"X-RateLimit-Limit 5 X-RateLimit-Remaining 4 X-RateLimit-Reset 1767323048",
		"X-RateLimit-Limit 5 X-RateLimit-Remaining 0 X-RateLimit-Reset 1767323057",
	}
	draft8 := [2]string{
		`RateLimit "burst";r=4;t=10 RateLimit-Policy "burst";q=5;w=12`,
		`RateLimit "burst";r=0;t=3 RateLimit-Policy "burst";q=5;w=12`,
	}
	draft6 := [2]string{
		"RateLimit-Limit 5 RateLimit-Remaining 4 RateLimit-Reset 3 RateLimit-Policy 5;w=12",
		"RateLimit-Limit 5 RateLimit-Remaining 0 RateLimit-Reset 12 RateLimit-Policy 5;w=12",
	}
	for _, style := range []struct {
		style           core.HeaderStyle
		allowed, denied string
	}{
		{core.HeadersDefault, legacy[0] + " " + draft8[0], legacy[1] + " " + draft8[1]},
		{core.HeadersLegacy, legacy[0], legacy[1]},
		{core.HeadersDraft8, draft8[0], draft8[1]},
		{core.HeadersDraft6, draft6[0], draft6[1]},
		{core.HeadersNone, "", ""},
	} {
		none := style.style == core.HeadersNone
		rules = append(rules, rule{
			name: "the fields are those of " + style.style.String(),
			app:  limit(core.Policy{Name: "test", Limits: []core.Limit{burst}, Headers: style.style}),
			send: []exchange{
				{status: 200, fields: strings.Fields(style.allowed), plain: none},
				{status: 200, times: 4, plain: none},
				{status: 429, fields: append(strings.Fields(style.denied), "Retry-After", "3"), plain: none},
			},
		})
	}
	return append(rules,
		rule{
			name: "list fields have all limiters, single fields the tightest",
			app:  stacked(limiter{policy: tokens("wide", 9), key: user}, limiter{policy: tokens("tight", 2), key: user}),
			send: []exchange{
				{status: 200, left: "tight 1, wide 8", listed: "tight, wide", fields: []string{"X-RateLimit-Limit", "2", "X-RateLimit-Remaining", "1"}},
				{status: 200, left: "tight 0, wide 7", listed: "tight, wide"},
				{status: 429, listed: "tight, wide", fields: []string{"X-RateLimit-Limit", "2", "X-RateLimit-Remaining", "0"}, lacks: "tight"},
			},
			after: "wide 6, tight 0",
		},
		rule{
			name: "single fields stay the outer limiter's if it is tighter",
			app:  stacked(limiter{policy: tokens("tight", 1), key: user}, limiter{policy: tokens("wide", 9), key: user}),
			send: []exchange{
				{status: 200, left: "wide 8, tight 0", listed: "tight, wide", fields: []string{"X-RateLimit-Limit", "1", "X-RateLimit-Remaining", "0"}},
				{status: 429, times: 2, listed: "tight", fields: []string{"X-RateLimit-Limit", "1"}, lacks: "tight"},
			},
			after: "tight 0, wide 8",
		})
}

// ofFailures are rules of requests that the store can't decide.
func ofFailures() []rule {
	unavailable := exchange{status: 503, fields: []string{"Retry-After", "1", "Cache-Control", "no-store"}}
	return []rule{
		{name: "FailClosed answers 503 with Retry-After", app: down(core.FailClosed), send: []exchange{unavailable}},
		{
			name: "FailOpen lets requests pass without fields", app: down(core.FailOpen),
			send: []exchange{{status: 200, times: 4, left: "fail-open", plain: true}},
		},
		{
			name: "FailLocal limits each process on its own", app: down(core.FailLocal),
			send: []exchange{{status: 200, left: "test 1"}, {status: 200, left: "test 0"}, {status: 429}},
		},
		{
			name: "a request whose context has ended takes nothing",
			app:  app{use: []limiter{{policy: tokens("test", 1), key: user}}, context: ended},
			send: []exchange{{status: 503}}, after: "test 1",
		},
		{
			name: "shadow mode does not stop requests whose context ended",
			app:  app{use: []limiter{{policy: shadowed(tokens("test", 1)), key: user}}, context: ended},
			send: []exchange{{status: 200, plain: true}},
		},
	}
}

// ofErrors are rules of errors of the app's functions.
func ofErrors() (rules []rule) {
	rules = []rule{
		{
			name: "an error of the app is 500, and logged", app: limit(tokens("test", 1), withCost),
			send: []exchange{{request: from("error inside"), status: 500}}, logs: []string{"code=RL709"}, after: "test 1",
		},
		{
			name: "a negative cost is 500 and adds nothing", app: limit(tokens("test", 5), withCost),
			send: []exchange{{status: 200}, {request: fields("Cost", "-3"), status: 500}}, after: "test 4",
		},
		{
			name: "an error that wraps ErrNoKey is 400", app: limit(tokens("test", 1)),
			send: []exchange{{request: from("error none"), status: 400}},
		},
		{
			name: "a body above MaxBytesReader's limit is 413, unlogged", needs: overHTTP, app: limit(tokens("test", 1)),
			send: []exchange{{request: from("error large"), status: 413}}, quiet: true,
		},
		{
			name: "an ended context of a key function is 503, unlogged",
			app:  app{use: []limiter{{policy: tokens("test", 1), key: user}}, context: ended},
			send: []exchange{{request: from("error ended"), status: 503}}, quiet: true,
		},
		{
			name: "an ended context that isn't the request's is 500", app: limit(tokens("test", 1)),
			send: []exchange{{request: from("error ended"), status: 500}},
		},
		{
			name: "a server error of the framework is 500", needs: errorsOwn, app: limit(tokens("test", 1)),
			send: []exchange{{request: from("error 502"), status: 500}}, logs: []string{"code=RL709"},
		},
		{
			name: "FirstOf stops at a client error", needs: errorsOwn, app: keyed(tokens("test", 1), firstOf(user, global("all"))),
			send: []exchange{{request: from("error 401"), status: 401}},
		},
		{
			name: "OnError replaces every answer without a decision", app: limit(tokens("test", 1), withCost, onError),
			send: []exchange{
				{request: from("error none"), status: 418, own: true}, {request: from("error inside"), status: 418, own: true},
				{request: fields("Cost", "error inside"), status: 418, own: true},
			},
			script: func(c *check) {
				for i, want := range []error{core.ErrNoKey, errInside, errInside} {
					c.wantError(c.refused[i], want)
				}
			},
		},
		{
			name: "OnError gets ErrUnavailable of an outage", app: down(core.FailClosed, onError),
			send:   []exchange{{status: 418, own: true}},
			script: func(c *check) { c.wantError(c.refused[0], core.ErrUnavailable) },
		},
		{
			name: "OnError gets client errors too", needs: errorsOwn, app: limit(tokens("test", 1), onError),
			send: []exchange{{request: from("error 401"), status: 418, own: true}},
		},
		{
			name: "the default answer follows if OnError writes nothing", app: limit(tokens("test", 1), onError),
			send:   []exchange{{request: from("error inside"), reply: reply{silent: true}, status: 500}},
			script: (*check).wantOneRefused,
		},
	}
	for _, field := range []string{"User", "Cost", "Words", "Plan"} {
		rules = append(rules, rule{
			name: "client errors stay as they are, unlogged: " + field, needs: errorsOwn,
			app: limit(counting(2, 2), withCost, withUnits, withPlan), after: "calls 2, words 2",
			send: []exchange{{request: fields(field, "error 401"), status: 401}, {request: fields(field, "error 403"), status: 403}}, quiet: true,
		})
	}
	return rules
}
