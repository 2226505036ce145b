package adaptertest

import "github.com/tokenbucket-go/ratelimit/core"

// mistakes are rules of programs that give an adapter wrong arguments: New
// panics with all mistakes at once.
func mistakes() (rules []rule) {
	good := tokens("test", 1)
	for name, x := range map[string]struct {
		needs   need
		limiter limiter
		panics  []string
	}{
		"New": {0, limiter{key: none}, []string{"New limiter: <nil> must be", "New key: <nil> must be"}},
		"NewTogether": {
			0, together(limiter{policy: good, key: none}, limiter{key: user}),
			[]string{"rules[0].Key: <nil> must be", "rules[1].Limiter: <nil> must be"},
		},
		"PerIP": {
			overHTTP,
			limiter{
				kind: asPerIP, policy: core.Policy{Limits: []core.Limit{{Capacity: -1, RefillRate: 1}}},
				trust: []core.IPOption{core.TrustProxies("10.0.0.0/33")},
			},
			[]string{"PerIP limit.Capacity: -1 must", "PerIP limit.RefillInterval: 0s must", `TrustProxies: "10.0.0.0/33" must be`},
		},
		"ByIP": {
			0, limiter{policy: good, key: ip(core.TrustProxies("10.0.0.0/33", "proxy"))},
			[]string{`TrustProxies: "10.0.0.0/33" must be`, `TrustProxies: "proxy" must be`},
		},
		"ByHeader":       {0, limiter{policy: good, key: header("X User")}, []string{`: "X User" must be`}},
		"ByCookie":       {0, limiter{policy: good, key: cookie("a=b")}, []string{`ByCookie: "a=b" must be`}},
		"ByQuery":        {0, limiter{policy: good, key: query("")}, []string{`ByQuery: "" must be`}},
		"ByParam":        {0, limiter{policy: good, key: param("")}, []string{`ByParam: "" must be`}},
		"ByContextValue": {0, limiter{policy: good, key: contextValue([]int{1})}, []string{"ByContextValue: []int can't be"}},
		"Global":         {0, limiter{policy: good, key: global("")}, []string{`Global: "" must be`}},
		"Join and FirstOf": {
			0, limiter{policy: good, key: join(firstOf(header("X User"), join(global(""))), none, firstOf())},
			[]string{`: "X User" must be`, `Global: "" must be`, "Join keys[1]: <nil> must be", "FirstOf: 0 keys given"},
		},
		"ClientIP": {
			0,
			limiter{kind: asClientIP, policy: good, trust: []core.IPOption{core.TrustProxies("10.0.0.0/33"), core.IPv6Prefix(129)}},
			[]string{`TrustProxies: "10.0.0.0/33" must be`, "IPv6Prefix: 129 must be"},
		},
		"CostByContentLength": {
			overHTTP, limiter{policy: good, key: header(""), with: badLength},
			[]string{"ByHeader", "CostByContentLength bytesPerToken: 0 must be"},
		},
		"options": {0, limiter{policy: good, key: user, with: withSettle | withRefund}, []string{"WithSettle"}},
	} {
		rules = append(rules, rule{
			name: "panics with all mistakes: " + name, needs: x.needs, app: app{use: []limiter{x.limiter}}, panics: x.panics,
		})
	}
	return rules
}
