package adaptertest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// mistakes checks that New panics if the program gives it wrong arguments.
func (s *suite) mistakes() {
	s.panics()
	s.panicsOfCosts()
	if !s.kit.RPC {
		s.panicsOfLengths()
	}
}

// panics checks what New panics with.
func (s *suite) panics() {
	k := s.kit
	var none anyKey
	for _, mistake := range []struct {
		rule    string
		key     anyKey
		options []anyOption
		want    []string
	}{
		{"a nil key", none, nil, []string{"New key: <nil> must be"}},
		{"ByIP with invalid addresses", k.ByIP(core.TrustProxies("10.0.0.0/8", "10.0.0.0/33", "proxy")), nil,
			[]string{`TrustProxies: "10.0.0.0/33" must be`, `TrustProxies: "proxy" must be`}},
		{"ByIP with a name that no header field can have", k.ByIP(core.TrustProxies("10.0.0.0/8"), core.TrustHeader("CF IP")), nil, []string{`TrustHeader: "CF IP" must be`}},
		{"ByIP with a prefix out of range", k.ByIP(core.IPv6Prefix(129)), nil, []string{"IPv6Prefix: 129 must be"}},
		{"ByHeader without a name", k.ByHeader(""), nil, []string{`: "" must be`}},
		{"ByHeader with a name that no field can have", k.ByHeader("X User"), nil, []string{`: "X User" must be`}},
		{"ByCookie with a name that no cookie can have", k.ByCookie("a=b"), nil, []string{`ByCookie: "a=b" must be`}},
		{"ByQuery without a name", k.ByQuery(""), nil, []string{`ByQuery: "" must be`}},
		{"ByParam without a name", k.ByParam(""), nil, []string{`ByParam: "" must be`}},
		{"ByContextValue of nil", k.ByContextValue(nil), nil, []string{"ByContextValue: <nil> can't be"}},
		{"ByContextValue of a key that is not comparable", k.ByContextValue([]int{1}), nil, []string{"ByContextValue: []int can't be"}},
		{"Global without a name", k.Global(""), nil, []string{`Global: "" must be`}},
		{"Join of no keys", k.Join(), nil, []string{"Join: 0 keys given: it needs at least one"}},
		{"Join with a nil key", k.Join(k.ByIP(), none), nil, []string{"Join keys[1]: <nil> must be"}},
		{"FirstOf of no keys", k.FirstOf(), nil, []string{"FirstOf: 0 keys given: it needs at least one"}},
		{"FirstOf with a nil key", k.FirstOf(none, k.ByIP()), nil, []string{"FirstOf keys[0]: <nil> must be"}},
		{"all mistakes in nested keys", k.Join(k.ByIP(core.IPv6Prefix(0)), k.FirstOf(k.ByHeader("X User"), k.Join(k.Global(""), k.ByIP())), none), nil,
			[]string{"IPv6Prefix: 0 must be", `: "X User" must be`, `Global: "" must be`, "Join keys[2]: <nil>"}},
	} {
		if absent(mistake.key) && mistake.rule != "a nil key" {
			continue
		}
		s.rule("New panics with every mistake: "+mistake.rule, func(c *trial) {
			c.wantPanic(middleware{c.holding(1), mistake.key, mistake.options, nil, nil, nil}, mistake.want...)
		})
	}
	s.rule("New panics with every mistake: a nil limiter and a nil key", func(c *trial) {
		c.wantPanic(middleware{nil, none, nil, nil, nil, nil}, "New limiter: <nil> must be", "New key: <nil> must be")
	})
}

// panicsOfLengths checks costs by the length of a body.
func (s *suite) panicsOfLengths() {
	k := s.kit
	for _, mistake := range []struct {
		rule    string
		key     anyKey
		options []anyOption
		want    []string
	}{
		{"CostByContentLength with 0 bytes per token", k.Global("all"), []anyOption{k.CostByContentLength(0)}, []string{"CostByContentLength bytesPerToken: 0 must be"}},
		{"CostByContentLengthOr with a bad cost of unknown lengths", k.Global("all"), []anyOption{k.CostByContentLengthOr(1, 0)},
			[]string{"CostByContentLengthOr unknown: 0 must be"}},
		{"CostByContentLengthOr with two bad arguments", k.Global("all"), []anyOption{k.CostByContentLengthOr(-1, 0)},
			[]string{"CostByContentLengthOr bytesPerToken: -1 must be", "CostByContentLengthOr unknown: 0 must be"}},
		{"mistakes in both key and cost", k.ByHeader(""), []anyOption{k.CostByContentLength(0)}, []string{"ByHeader", "CostByContentLength"}},
	} {
		s.rule("New panics with every mistake: "+mistake.rule, func(c *trial) {
			c.wantPanic(middleware{c.holding(1), mistake.key, mistake.options, nil, nil, nil}, mistake.want...)
		})
	}
}

// panicsOfCosts checks costs that nothing counts, and that New calls no
// function of the user.
func (s *suite) panicsOfCosts() {
	k := s.kit
	s.rule("New panics with every mistake: a cost, which is a number of requests, for a policy that counts none", func(c *trial) {
		l := c.limiter(core.Policy{Name: "words only", Limits: []core.Limit{core.PerHour(9).WithUnit("words")}})
		cost := k.WithCost(func(Header) (int64, error) { return 9, nil })
		const mistake = `WithCost: "words only" is a policy without a limit that counts requests, and a cost is a number of requests: use WithUnits instead`
		for _, options := range [][]anyOption{{cost}, {cost, k.WithUnits(words)}, {cost, k.WithSettle(giving(1).settle)}} {
			c.wantPanic(middleware{Limiter: l, Key: k.Global("all"), Options: options}, mistake)
			c.wantPanic(middleware{Together: []rule{{l, k.Global("all")}, {l, k.Global("more")}}, Options: options}, mistake)
		}
		shadow := l.Policy()
		shadow.Shadow = true
		c.wantStatus(c.use(c.limiter(shadow), k.Global("all"), cost).send(request{}), http.StatusOK, "a request under a policy in shadow mode, which refuses nothing")
	})
	s.rule("New does not call the user's functions", func(c *trial) {
		l := newListener()
		_ = l.Close()
		called := func(Header) (string, error) { c.errorf("New called a key function"); return "", nil }
		_ = c.kit.Serve(l, c.app(answer(http.StatusOK), middleware{c.holding(1), c.kit.Join(c.kit.Custom(called), c.kit.FirstOf(c.kit.Custom(called))), nil, nil, nil, nil}))
	})
}

// wantPanic checks that New panics for l with a message that contains each of
// want, and no more mistakes.
func (c *trial) wantPanic(l middleware, want ...string) {
	c.t.Helper()
	closed := newListener()
	_ = closed.Close()
	defer func() {
		c.t.Helper()
		mistake := recover()
		if mistake == nil {
			c.errorf("New did not panic, so every request would fail")
			return
		}
		for _, w := range want {
			if !strings.Contains(fmt.Sprint(mistake), w) {
				c.errorf("New panicked with %q, want it to contain %q", fmt.Sprint(mistake), w)
			}
		}
		if n := strings.Count(fmt.Sprint(mistake), "(RL"); n > len(want) {
			c.errorf("New panicked with %d mistakes, want each of %q once: %q", n, want, fmt.Sprint(mistake))
		}
	}()
	_ = c.kit.Serve(closed, c.app(answer(http.StatusOK), l))
}
