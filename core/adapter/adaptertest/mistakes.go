package adaptertest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// mistakes: those in the program itself, which end its start.
func (s *suite[K, O]) mistakes() {
	k := s.kit
	var none K
	for _, mistake := range []struct {
		rule    string
		key     K
		options []O
		want    []string
	}{
		{"a nil key", none, nil, []string{"New key: <nil> must be"}},
		{"ByIP: addresses that are none", k.ByIP(core.TrustProxies("10.0.0.0/8", "10.0.0.0/33", "proxy")), nil,
			[]string{`TrustProxies: "10.0.0.0/33" must be`, `TrustProxies: "proxy" must be`}},
		{"ByIP: a header that no field can have", k.ByIP(core.TrustProxies("10.0.0.0/8"), core.TrustHeader("CF IP")), nil, []string{`TrustHeader: "CF IP" must be`}},
		{"ByIP: a prefix out of range", k.ByIP(core.IPv6Prefix(129)), nil, []string{"IPv6Prefix: 129 must be"}},
		{"ByHeader without a name", k.ByHeader(""), nil, []string{`ByHeader: "" must be`}},
		{"ByHeader with a name that no field can have", k.ByHeader("X User"), nil, []string{`ByHeader: "X User" must be`}},
		{"ByCookie with a name that no cookie can have", k.ByCookie("a=b"), nil, []string{`ByCookie: "a=b" must be`}},
		{"ByQuery without a name", k.ByQuery(""), nil, []string{`ByQuery: "" must be`}},
		{"ByParam without a name", k.ByParam(""), nil, []string{`ByParam: "" must be`}},
		{"ByContextValue of nothing", k.ByContextValue(nil), nil, []string{"ByContextValue: <nil> can't be"}},
		{"ByContextValue of what can't be compared", k.ByContextValue([]int{1}), nil, []string{"ByContextValue: []int can't be"}},
		{"Global without a name", k.Global(""), nil, []string{`Global: "" must be`}},
		{"Join of no keys", k.Join(), nil, []string{"Join: 0 keys: give it at least one"}},
		{"Join of nil", k.Join(k.ByIP(), none), nil, []string{"Join keys[1]: <nil> must be"}},
		{"FirstOf no keys", k.FirstOf(), nil, []string{"FirstOf: 0 keys: give it at least one"}},
		{"FirstOf nil", k.FirstOf(none, k.ByIP()), nil, []string{"FirstOf keys[0]: <nil> must be"}},
		{"all mistakes in keys of keys", k.Join(k.ByIP(core.IPv6Prefix(0)), k.FirstOf(k.ByHeader("X User"), k.Join(k.Global(""), k.ByIP())), none), nil,
			[]string{"IPv6Prefix: 0 must be", `ByHeader: "X User" must be`, `Global: "" must be`, "Join keys[2]: <nil>"}},
		{"CostByContentLength of no bytes a token", k.Global("all"), []O{k.CostByContentLength(0)}, []string{"CostByContentLength bytesPerToken: 0 must be"}},
		{"CostByContentLength with a bad cost of unknown lengths", k.Global("all"), []O{k.CostByContentLength(-1, 0)},
			[]string{"CostByContentLength bytesPerToken: -1 must be", "CostByContentLength unknown: 0 must be"}},
		{"CostByContentLength with two costs of unknown lengths", k.Global("all"), []O{k.CostByContentLength(1, 1, 2)}, []string{"CostByContentLength unknown: [1 2] must be one"}},
		{"mistakes in key and cost together", k.ByHeader(""), []O{k.CostByContentLength(0)}, []string{"ByHeader", "CostByContentLength"}},
	} {
		s.rule("New panics with every mistake: "+mistake.rule, func(c *trial[K, O]) {
			c.wantPanic(Limiter[K, O]{c.holding(1), mistake.key, mistake.options}, mistake.want...)
		})
	}
	s.rule("New panics with every mistake: a nil limiter, beside others", func(c *trial[K, O]) {
		c.wantPanic(Limiter[K, O]{nil, none, nil}, "New limiter: <nil> must be", "New key: <nil> must be")
	})
	s.rule("New calls no function of the user's", func(c *trial[K, O]) {
		l := newListener()
		_ = l.Close()
		called := func(Header) (string, error) { c.errorf("it did"); return "", nil }
		_ = c.kit.Serve(l, c.app(answer(http.StatusOK), Limiter[K, O]{c.holding(1), c.kit.Join(c.kit.Custom(called), c.kit.FirstOf(c.kit.Custom(called))), nil}))
	})
}

// wantPanic checks that making l panics, and tells each of want.
func (c *trial[K, O]) wantPanic(l Limiter[K, O], want ...string) {
	c.t.Helper()
	listener := newListener()
	_ = listener.Close()
	defer func() {
		c.t.Helper()
		told := recover()
		if told == nil {
			c.errorf("it did not, so every request would fail")
			return
		}
		for _, w := range want {
			if !strings.Contains(fmt.Sprint(told), w) {
				c.errorf("it said %q, want %q among it", fmt.Sprint(told), w)
			}
		}
	}()
	_ = c.kit.Serve(listener, c.app(answer(http.StatusOK), l))
}
