package adaptertest

import "github.com/tokenbucket-go/ratelimit/core"

// ofOptions are rules of what the options of New change. Those of a request's
// end have tables of their own.
func ofOptions() []rule {
	chunked := request{method: "POST", body: "x", chunked: true}
	pro := tokens("test", 3)
	pro.Plans = map[string][]core.Limit{"pro": {slow("test", 9)}}
	return []rule{
		{
			name: "WithCost sets the tokens, and 0 always passes", app: limit(tokens("test", 5), withCost),
			send: []exchange{
				{request: fields("Cost", "3"), status: 200, left: "test 2"}, {request: fields("Cost", "0"), status: 200, left: "test 2"},
				{request: fields("Cost", "2"), status: 200, left: "test 0"}, {request: fields("Cost", "0"), status: 200, left: "test 0"},
				{request: fields("Cost", "1"), status: 429},
			},
		},
		{
			name: "each function of the app is called once", app: limit(counting(9, 9), withSkip, withCost, withUnits, withPlan),
			send: []exchange{
				{request: fields("Cost", "2", "Words", "3"), status: 200, once: []string{"key", "Skip", "Cost", "Words", "Plan"}},
				{request: fields("Cost", "9", "Words", "3"), status: 429, once: []string{"key", "Skip", "Cost", "Words", "Plan"}},
			},
			after: "calls 7, words 6",
		},
		{
			name: "CostByContentLength rounds up, and takes at least one", needs: overHTTP, app: limit(tokens("test", 100), withContentLength),
			send: []exchange{
				{status: 200, left: "test 99"}, {request: post(9), status: 200, left: "test 98"}, {request: post(10), status: 200, left: "test 97"},
				{request: post(11), status: 200, left: "test 95"}, {request: chunked, status: 429},
			},
		},
		{
			name: "a body of unknown length costs the whole capacity", needs: overHTTP, app: limit(tokens("test", 7), withContentLength),
			send: []exchange{{request: chunked, status: 200, left: "test 0"}},
		},
		{
			name: "CostByContentLengthOr has a cost for unknown lengths", needs: overHTTP, app: limit(tokens("test", 10), withContentLengthOr),
			send: []exchange{{request: chunked, status: 200, left: "test 6"}, {request: post(1), status: 200, left: "test 5"}},
		},
		{
			name: "WithUnits takes units beside requests, or nothing", app: limit(counting(4, 50), withUnits),
			send: []exchange{
				{request: fields("Words", "30"), status: 200}, {request: fields("Words", "21"), status: 429, lacks: "words"},
				{request: fields("Words", "error inside"), status: 500}, {status: 200},
			},
			after: "calls 2, words 20",
		},
		{
			name: "WithPlan chooses a plan of the policy", app: limit(pro, withPlan),
			send: []exchange{
				{request: fields("Plan", "pro"), status: 200, left: "test 8"}, {status: 200, left: "test 1"},
				{request: fields("Plan", "error inside"), status: 500},
			},
		},
		{
			name: "WithLimits replaces the limits, and nil keeps them", app: limit(tokens("test", 3), withLimits),
			send: []exchange{
				{request: from("ann", "Limits", "own"), status: 200, left: "own 4"}, {request: from("bob"), status: 200, left: "test 2"},
			},
		},
		{
			name: "a skipped request is neither counted nor needs a key", app: keyed(tokens("test", 1), header("User"), withSkip),
			send: []exchange{
				{request: fields("Skip", "1"), status: 200, left: "nothing", plain: true},
				{request: from("ann", "Skip", "1"), status: 200, left: "nothing", plain: true},
				{request: from("ann"), status: 200, left: "test 0"}, {request: from("ann"), status: 429},
				{request: from("ann", "Skip", "1"), status: 200, plain: true},
			},
		},
		{
			name: "behind a limiter that skips, the outer decision stays",
			app:  stacked(limiter{policy: tokens("outer", 5), key: user}, limiter{policy: tokens("inner", 5), key: user, with: withSkip}),
			send: []exchange{{request: fields("Skip", "1"), status: 200, left: "outer 4"}},
		},
		{
			name: "PerIP limits each address, whatever fields say", needs: overHTTP,
			app: app{use: []limiter{{kind: asPerIP, policy: core.Policy{Limits: []core.Limit{slow("tight", 2), core.PerDay(9)}}}}},
			send: []exchange{
				{request: forwarded("192.0.2.1:1", "203.0.113.1"), status: 200, left: "tight 1", listed: "9/day, tight"},
				{request: forwarded("192.0.2.1:2", "203.0.113.2"), status: 200}, {request: forwarded("192.0.2.1:1", "203.0.113.3"), status: 429},
				{request: request{peer: "192.0.2.2:1"}, status: 200, left: "tight 1"},
			},
		},
	}
}
