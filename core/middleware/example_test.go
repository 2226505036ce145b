package middleware_test

import (
	"context"
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// call is a call of an RPC framework, which has codes of its own and sends no
// header fields.
type call struct {
	ctx      context.Context
	method   string
	user     string
	decision *middleware.Decision
}

func (c *call) Context() context.Context                { return c.ctx }
func (c *call) Path() string                            { return c.method }
func (c *call) Response() core.HeaderWriter             { return nil }
func (c *call) SetDecision(d *middleware.Decision)      { c.decision = d }
func (c *call) Decision() *middleware.Decision          { return c.decision }
func byUser(c *call) (string, error)                    { return core.JoinKey("user", c.user), nil }
func refundUnavailable(_ *call, code int) (refund bool) { return code == unavailable }

// Codes of the framework.
const ok, unavailable, exhausted = 0, 14, 8

// An interceptor of an RPC framework: it decides a call, answers with the
// framework's own codes, and ends the call with its code.
func Example() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "calls", Limits: []core.Limit{core.PerHour(1)},
	}))
	engine := middleware.New(limiter, byUser, middleware.Options[*call]{Refund: refundUnavailable}, middleware.Protocol[*call]{})
	intercept := func(c *call, handler func() int) int {
		a := engine.Begin(c, c)
		switch {
		case a.Verdict == middleware.Denied:
			return exhausted
		case a.Verdict == middleware.Failed:
			return unavailable
		}
		code := handler()
		engine.End(c, &a, code)
		return code
	}
	for _, code := range []int{unavailable, ok, ok} {
		c := &call{ctx: context.Background(), method: "/files.Files/Read", user: "ann"}
		fmt.Println(intercept(c, func() int { return code }))
	}
	// Output:
	// 14
	// 0
	// 8
}

var _ middleware.Request = (*call)(nil)

// The user and the method's limit for all pay both, or none of them. A call
// without a user has no key, so there is no decision.
func ExampleRule() {
	store := core.NewMemoryStore()
	limiter := func(name string, perHour int) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{Name: name, Limits: []core.Limit{core.PerHour(perHour)}}))
	}
	engine := middleware.NewTogether([]middleware.Rule[func(*call) (string, error)]{
		{Limiter: limiter("user", 5), Key: func(c *call) (string, error) {
			if c.user == "" {
				return "", core.ErrNoKey
			}
			return byUser(c)
		}},
		{Limiter: limiter("method", 1), Key: func(c *call) (string, error) { return core.JoinKey("method", c.method), nil }},
	}, middleware.Options[*call]{}, middleware.Protocol[*call]{})

	for _, user := range []string{"ann", "bob", ""} {
		c := &call{ctx: context.Background(), method: "/files.Files/Read", user: user}
		a := engine.Begin(c, c)
		fmt.Printf("%q: allowed %t, without a key %t\n", user, a.Verdict == middleware.Allowed, a.Verdict == middleware.Failed && a.Cause == middleware.NoKey)
	}
	// Output:
	// "ann": allowed true, without a key false
	// "bob": allowed false, without a key false
	// "": allowed false, without a key true
}
