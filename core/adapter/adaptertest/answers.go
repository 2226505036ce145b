package adaptertest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// answers are rules of what is answered to requests that were decided. In the
// second the limit gains 3 in 7 seconds, and the clock stands at a quarter of
// 1767323045.
var answers = []rule{
	{
		name: "a denied request does not reach the handler", app: limit(tokens("test", 2), 0),
		send:  []exchange{{status: 200, times: 2}, {status: 429, times: 2, lacks: "test"}},
		after: "test 0",
	},
	{
		name: "answers have the fields of the limit",
		app: limit(
			core.Policy{Name: "test", Limits: []core.Limit{{Name: "burst", Capacity: 5, RefillRate: 3, RefillInterval: 7 * time.Second}}},
			0,
		),
		send: []exchange{
			{status: 200, fields: []string{
				"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "4", "X-RateLimit-Reset", "1767323048",
				"RateLimit-Policy", `"burst";q=5;w=12`, "RateLimit", `"burst";r=4;t=10`, "Retry-After", "",
			}},
			{status: 200, times: 4},
			{status: 429, fields: []string{
				"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1767323057",
				"RateLimit-Policy", `"burst";q=5;w=12`, "RateLimit", `"burst";r=0;t=3`, "Retry-After", "3",
			}},
		},
	},
	{
		name: "list fields have all limiters, single fields the tightest",
		app:  stacked(limiter{policy: tokens("wide", 9), key: user}, limiter{policy: tokens("tight", 2), key: user}),
		send: []exchange{
			{
				status: 200, left: "tight 1, wide 8", listed: "tight, wide",
				fields: []string{"X-RateLimit-Limit", "2", "X-RateLimit-Remaining", "1"},
			},
			{status: 200, left: "tight 0, wide 7", listed: "tight, wide"},
			{
				status: 429, listed: "tight, wide", fields: []string{"X-RateLimit-Limit", "2", "X-RateLimit-Remaining", "0"},
				lacks: "tight",
			},
		},
		after: "wide 6, tight 0",
	},
	{
		name: "single fields stay those of a tighter outer limiter",
		app:  stacked(limiter{policy: tokens("tight", 1), key: user}, limiter{policy: tokens("wide", 9), key: user}),
		send: []exchange{
			{
				status: 200, left: "wide 8, tight 0", listed: "tight, wide",
				fields: []string{"X-RateLimit-Limit", "1", "X-RateLimit-Remaining", "0"},
			},
			{status: 429, times: 2, listed: "tight", fields: []string{"X-RateLimit-Limit", "1"}, lacks: "tight"},
		},
		after: "tight 0, wide 8",
	},
	{
		name: "OnDenied replaces the answer and keeps the fields", app: limit(tokens("test", 1), onDenied),
		send: []exchange{{status: 200}, {status: 418, own: true}},
		script: func(c *check) {
			if res, ok := c.refused[0].(core.Result); !ok || res.Allowed || res.RetryAfter <= 0 || len(res.Limits()) != 1 {
				c.errorf("OnDenied got %+v, want the denial", c.refused)
			}
		},
	},
	{
		name: "the default follows if OnDenied writes nothing", app: limit(tokens("test", 1), onDenied),
		send: []exchange{{status: 200}, {reply: reply{silent: true}, status: 429}}, script: (*check).wantOneRefused,
	},
	{
		name: "HEAD is limited like GET", needs: overHTTP, app: limit(tokens("test", 1), 0),
		send: []exchange{{request: request{method: "HEAD"}, status: 200}, {request: request{method: "HEAD"}, status: 429}},
	},
	{
		name: "a POST can be denied before its body", needs: overHTTP, app: limit(tokens("test", 1), 0),
		send: []exchange{{request: post(20_000), status: 200}, {request: post(20_000), status: 429, times: 2}},
	},
	{name: "without a limiter there is no decision", send: []exchange{{status: 200, left: "nothing", plain: true}}},
	{
		name: "FromContext returns the decision", app: limit(tokens("test", 2), 0),
		send: []exchange{{status: 200, left: "test 1"}, {status: 200, left: "test 0"}},
	},
	{
		name: "shadow mode answers as without a limiter", app: limit(shadowed(tokens("test", 2)), 0), after: "test 0",
		send: []exchange{{status: 200, times: 4, plain: true}, {request: from("error none"), status: 200, plain: true}},
	},
	{
		name: "concurrent requests pass while there are tokens", app: limit(tokens("test", 53), 0),
		script: func(c *check) {
			var allowed, denied atomic.Int64
			var group sync.WaitGroup
			for range 80 {
				group.Go(func() {
					switch got := next(c, c.background(c.T.Context()), "a response"); got.status {
					case 200:
						allowed.Add(1)
					case 429:
						denied.Add(1)
					}
				})
			}
			group.Wait()
			if allowed.Load() != 53 || denied.Load() != 80-53 {
				c.errorf("%d requests passed and %d were denied, want 53 of 80 to pass", allowed.Load(), denied.Load())
			}
		},
	},
}

// wantOneRefused checks that OnDenied or OnError was called once.
func (c *check) wantOneRefused() {
	if len(c.refused) != 1 {
		c.errorf("the app's own function was called %d times, want once", len(c.refused))
	}
}

// failures are rules of requests that can't be decided.
var failures = []rule{
	{
		name: "FailClosed answers 503 with Retry-After", app: down(core.FailClosed, 0),
		send: []exchange{{status: 503, fields: []string{"Retry-After", "1", "Cache-Control", "no-store"}}},
	},
	{
		name: "FailOpen lets requests pass without fields", app: down(core.FailOpen, 0),
		send: []exchange{{status: 200, times: 4, left: "fail-open", plain: true}},
	},
	{
		name: "a request whose context has ended takes nothing", after: "test 1",
		app: app{use: []limiter{{policy: tokens("test", 1), key: user}}, context: ended}, send: []exchange{{status: 503}},
	},
	{
		name: "an error of the app is 500, and logged", app: limit(tokens("test", 1), 0),
		send: []exchange{{request: from("error inside"), status: 500}}, logs: []string{"code=RL709"}, after: "test 1",
	},
	{
		name: "an error that wraps ErrNoKey is 400", app: limit(tokens("test", 1), 0),
		send: []exchange{{request: from("error none"), status: 400}},
	},
	{
		name: "a body above MaxBytesReader's limit is 413, unlogged", needs: overHTTP, app: limit(tokens("test", 1), 0),
		send: []exchange{{request: from("error large"), status: 413}}, quiet: true,
	},
	{
		name: "a key function's ended context is 503, unlogged", quiet: true,
		app:  app{use: []limiter{{policy: tokens("test", 1), key: user}}, context: ended},
		send: []exchange{{request: from("error ended"), status: 503}},
	},
	{
		name: "a server error of the framework is 500", needs: errorsOwn, app: limit(tokens("test", 1), 0),
		send: []exchange{{request: from("error 502"), status: 500}}, logs: []string{"code=RL709"},
	},
	{
		name: "OnError replaces every answer without a decision", app: limit(tokens("test", 1), withCost|onError),
		send: []exchange{
			{request: from("error none"), status: 418, own: true}, {request: from("error inside"), status: 418, own: true},
			{request: having("Cost", "error inside"), status: 418, own: true},
		},
		script: func(c *check) { c.wantErrors(core.ErrNoKey, errInside, errInside) },
	},
	{
		name: "OnError gets ErrUnavailable of an outage", app: down(core.FailClosed, onError),
		send:   []exchange{{status: 418, own: true}},
		script: func(c *check) { c.wantErrors(core.ErrUnavailable) },
	},
	{
		name: "the default follows if OnError writes nothing", app: limit(tokens("test", 1), onError),
		send:   []exchange{{request: from("error inside"), reply: reply{silent: true}, status: 500}},
		script: (*check).wantOneRefused,
	},
}

// wantErrors checks what OnError got.
func (c *check) wantErrors(want ...error) {
	for i, want := range want {
		if err, _ := c.refused[i].(error); !errors.Is(err, want) {
			c.errorf("OnError got %v, want %v", c.refused[i], want)
		}
	}
}

// clientErrors are rules of errors of the framework with a status below 500.
func clientErrors() (rules []rule) {
	for _, field := range []string{"User", "Cost", "Words", "Plan"} {
		rules = append(rules, rule{
			name: "client errors stay as they are, unlogged: " + field, needs: errorsOwn,
			app: limit(counting(2, 2), withCost|withUnits|withPlan), after: "calls 2, words 2", quiet: true,
			send: []exchange{
				{request: having(field, "error 401"), status: 401}, {request: having(field, "error 403"), status: 403},
			},
		})
	}
	return rules
}

var (
	chunked = request{method: "POST", body: "x", chunked: true}
	plans   = core.Policy{Name: "test", Limits: []core.Limit{slow("test", 3)}, Plans: map[string][]core.Limit{"pro": {slow("test", 9)}}}
)

// options are rules of what the options of New change. Those of a request's end
// are in ends.
var options = []rule{
	{
		name: "WithCost sets the tokens, and 0 always passes", app: limit(tokens("test", 5), withCost),
		send: []exchange{
			{request: having("Cost", "6"), status: 429, never: true},
			{request: having("Cost", "3"), status: 200, left: "test 2"},
			{request: having("Cost", "0"), status: 200, left: "test 2"},
			{request: having("Cost", "2"), status: 200, left: "test 0"},
			{request: having("Cost", "0"), status: 200, left: "test 0"},
			{request: having("Cost", "1"), status: 429},
		},
	},
	{
		name: "each function of the app is called once", app: limit(counting(9, 9), withSkip|withCost|withUnits|withPlan),
		send: []exchange{
			{request: having("Cost", "2", "Words", "3"), status: 200, once: []string{"key", "Skip", "Cost", "Words", "Plan"}},
			{request: having("Cost", "9", "Words", "3"), status: 429, once: []string{"key", "Skip", "Cost", "Words", "Plan"}},
		},
		after: "calls 7, words 6",
	},
	{
		name: "CostByContentLength rounds up; unknown lengths cost the capacity", needs: overHTTP,
		app: limit(tokens("test", 9), withContentLength),
		send: []exchange{
			{request: from("ann"), status: 200, left: "test 8"}, {request: post(9), status: 200, left: "test 8"},
			{request: post(10), status: 200, left: "test 7"},
			{request: post(11), status: 200, left: "test 5"}, {request: chunked, status: 429},
			{
				request: request{method: "POST", header: []string{"User", "bob"}, body: "x", chunked: true}, status: 200,
				left: "test 0",
			},
		},
	},
	{
		name: "CostByContentLengthOr has a cost for unknown lengths", needs: overHTTP,
		app:  limit(tokens("test", 10), withContentLengthOr),
		send: []exchange{{request: chunked, status: 200, left: "test 6"}, {request: post(1), status: 200, left: "test 5"}},
	},
	{
		name: "WithUnits takes units beside requests, or nothing", app: limit(counting(4, 50), withUnits),
		send: []exchange{
			{request: having("Words", "30"), status: 200}, {request: having("Words", "21"), status: 429, lacks: "words"},
			{request: having("Words", "error inside"), status: 500}, {status: 200},
		},
		after: "calls 2, words 20",
	},
	{
		name: "WithFloor leaves tokens to other requests", app: limit(tokens("test", 4), withFloor),
		send: []exchange{
			{request: having("Floor", "3"), status: 200, left: "test 3"}, {request: having("Floor", "3"), status: 429, lacks: "test"},
			{status: 200, left: "test 2"}, {request: having("Floor", "error inside"), status: 500}, {status: 200, left: "test 1"},
			{request: having("Floor", "1"), status: 429, lacks: "test"}, {status: 200, left: "test 0"},
		},
	},
	{
		name: "WithPlan chooses a plan of the policy", app: limit(plans, withPlan),
		send: []exchange{
			{request: having("Plan", "pro"), status: 200, left: "test 8"}, {status: 200, left: "test 1"},
			{request: having("Plan", "error inside"), status: 500},
		},
	},
	{
		name: "WithLimits replaces the limits, and nil keeps them", app: limit(tokens("test", 3), withLimits),
		send: []exchange{
			{request: from("ann", "Limits", "own"), status: 200, left: "own 4"},
			{request: from("bob"), status: 200, left: "test 2"},
		},
	},
	{
		name: "a skipped request is neither counted nor needs keys", app: keyed(tokens("test", 1), header("User"), withSkip),
		send: []exchange{
			{request: having("Skip", "1"), status: 200, left: "nothing", plain: true},
			{request: from("ann", "Skip", "1"), status: 200, left: "nothing", plain: true},
			{request: from("ann"), status: 200, left: "test 0"}, {request: from("ann"), status: 429},
			{request: from("ann", "Skip", "1"), status: 200, plain: true},
		},
	},
	{
		name: "behind a limiter that skips, the outer decision stays",
		app: stacked(
			limiter{policy: tokens("outer", 5), key: user}, limiter{policy: tokens("inner", 5), key: user, with: withSkip},
		),
		send: []exchange{{request: having("Skip", "1"), status: 200, left: "outer 4"}},
	},
	{
		name: "PerIP limits each address, whatever fields say", needs: overHTTP,
		app: app{use: []limiter{{kind: asPerIP, policy: core.Policy{Limits: []core.Limit{slow("tight", 2)}}}}},
		send: []exchange{
			{request: forwarded("192.0.2.1:1", "203.0.113.1"), status: 200, left: "tight 1", listed: "tight"},
			{request: forwarded("192.0.2.1:2", "203.0.113.2"), status: 200},
			{request: forwarded("192.0.2.1:1", "203.0.113.3"), status: 429},
			{request: request{peer: "192.0.2.2:1"}, status: 200, left: "tight 1"},
		},
	},
	{
		name: "PerIP passes on the options of ByIP", needs: overHTTP,
		app: app{use: []limiter{{kind: asPerIP, policy: core.Policy{Limits: []core.Limit{slow("tight", 1)}}, trust: []core.IPOption{proxy}}}},
		send: []exchange{
			{request: forwarded("10.0.0.1:1", "203.0.113.1"), status: 200, left: "tight 0"},
			{request: forwarded("10.0.0.1:1", "203.0.113.2"), status: 200, left: "tight 0"},
			{request: forwarded("10.0.0.2:1", "203.0.113.1"), status: 429},
		},
	},
}
