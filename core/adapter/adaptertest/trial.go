package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// trial is the check of one rule.
type trial struct {
	t     testing.TB
	rule  string
	kit   adapter
	clock *clock
	store core.Store
}

func (c *trial) errorf(format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("the rule: %s\n%s", c.rule, fmt.Sprintf(format, args...))
}

// limiter binds a policy to the trial's store.
func (c *trial) limiter(policy core.Policy) *core.Limiter {
	c.t.Helper()
	return c.limiterOn(c.store, policy)
}

func (c *trial) limiterOn(store core.Store, policy core.Policy) *core.Limiter {
	c.t.Helper()
	l, err := core.NewLimiter(store, policy)
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

// holding returns a limiter whose buckets hold n tokens and gain none while the
// clock stands still.
func (c *trial) holding(n int64) *core.Limiter {
	c.t.Helper()
	return c.limiter(policyOf(n))
}

func policyOf(n int64) core.Policy {
	return core.Policy{Name: "test", Limits: []core.Limit{slow(n)}}
}

// slow returns a limit of n tokens that gains one every 100 days. So it gains
// none while a test runs, even in a store that uses the real time.
func slow(n int64) core.Limit {
	return core.Limit{Capacity: n, RefillRate: 1, RefillInterval: 2400 * time.Hour}
}

// use runs an app with one limiter in front of all routes.
func (c *trial) use(l *core.Limiter, key anyKey, options ...anyOption) *server {
	c.t.Helper()
	return c.serve(c.app(answer(http.StatusOK), middleware{l, key, options, nil, nil, nil}))
}

// answer returns a handler that always answers with status.
func answer(status int) func(context.Context) Reply {
	return func(context.Context) Reply { return Reply{Status: status} }
}

// app returns an app with limiters in front of all its routes. The routes share
// one handler.
func (c *trial) app(handle func(context.Context) Reply, use ...middleware) App[middleware] {
	return App[middleware]{
		Context: func(ctx context.Context) context.Context { return ctx },
		Use:     use,
		Routes:  routes(handle),
	}
}

// routes returns the routes of an app. Each has the given limiters in front.
func routes(handle func(context.Context) Reply, use ...middleware) []Route[middleware] {
	var list []Route[middleware]
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		for _, pattern := range []string{"/items/{id}", "/other"} {
			list = append(list, Route[middleware]{method, pattern, use, handle})
		}
	}
	return list
}

// wantStatus reports whether r has the status. If it has not, the rule fails.
func (c *trial) wantStatus(r response, status int, when string) bool {
	c.t.Helper()
	if status = c.kit.known(status); r.status != status {
		c.errorf("%s: answered %d, want %d\nheader %v\nbody %q", when, r.status, status, r.header, r.body)
	}
	return r.status == status
}

// wantRemaining checks what FromContext returned to the handler.
func (c *trial) wantRemaining(r response, remaining int64, when string) {
	c.t.Helper()
	if want := fmt.Sprintf("remaining %d of 1 limits, from store", remaining); r.status == http.StatusOK && r.body == want {
		return
	}
	c.errorf("%s: answered %d %q, want 200 with %d tokens left", when, r.status, r.body, remaining)
}

// counted returns handle with a count of its calls.
func counted(calls *atomic.Int64, handle func(context.Context) Reply) func(context.Context) Reply {
	return func(ctx context.Context) Reply {
		calls.Add(1)
		return handle(ctx)
	}
}

// clock stands still unless a test moves it.
type clock struct{ micros atomic.Int64 }

// newClock returns a clock that stands between two seconds, so cases show how
// values are rounded.
func newClock() *clock {
	var c clock
	c.micros.Store(time.Date(2026, 1, 2, 3, 4, 5, 250_000_000, time.UTC).UnixMicro())
	return &c
}

func (c *clock) Now() time.Time          { return time.UnixMicro(c.micros.Load()) }
func (c *clock) advance(d time.Duration) { c.micros.Add(d.Microseconds()) }

// brokenStore always fails, with an error whose text is not for clients.
type brokenStore struct{}

func (brokenStore) Do(context.Context, store.Request) (store.Answer, error) {
	return store.Answer{}, errSecret
}

func (brokenStore) Reset(context.Context, string, string) error { return errSecret }

// announcedStore sends on done when it has answered.
type announcedStore struct {
	core.Store
	done chan struct{}
}

func (s announcedStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	a, err := s.Store.Do(ctx, r)
	if err == nil {
		s.done <- struct{}{}
	}
	return a, err
}

// next returns the next value of ch. If none comes before patience ends, the
// rule fails.
func next[V any](c *trial, ch <-chan V, what string) (v V) {
	c.t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		c.t.Fatalf("the rule: %s\n%s never came", c.rule, what)
	}
	return v
}

// within reports whether ch is ready before patience ends.
func (c *trial) within(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	case <-time.After(patience):
		return false
	}
}

// secret is in the text of errors. No client must see it.
const secret = "password=hunter2"

var errSecret = errors.New("dial tcp: " + secret)

// wantRefusal checks the answer to a request that has no decision.
func (c *trial) wantRefusal(got response, status int, when string) {
	c.t.Helper()
	if !c.wantStatus(got, status, when) {
		return
	}
	if all := fmt.Sprint(got.header, got.body); strings.Contains(all, secret) || strings.Contains(all, "ratelimit:") {
		c.errorf("%s: the answer shows an internal error: %s", when, all)
	}
	if found := limitFields(got.header); len(found) > 0 {
		c.errorf("%s: without a decision the answer must have no fields of the limit, but has %q", when, found)
	}
	if c.kit.ProblemBody {
		c.wantProblem(got, status, when)
	} else if e := got.header.Get(ErrorHeader); e != fmt.Sprint(status) {
		c.errorf("%s: the error handler got an error of status %q, want %d", when, e, status)
	}
}

// wantProblem checks that the body is a problem (RFC 9457) with the status.
func (c *trial) wantProblem(got response, status int, when string) (p problem) {
	c.t.Helper()
	if ct := got.header.Get("Content-Type"); ct != "application/problem+json" {
		c.errorf("%s: Content-Type is %q, want application/problem+json", when, ct)
	}
	if err := json.Unmarshal([]byte(got.body), &p); err != nil || p.Type == "" || p.Title == "" || p.Status != status {
		c.errorf("%s: the body is %q (%v), want a type, a title and status %d", when, got.body, err, status)
	}
	return p
}

type problem struct {
	Type             string   `json:"type"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	ViolatedPolicies []string `json:"violated-policies"`
}

// wantAll checks what AllFromContext returned to the handler.
func (c *trial) wantAll(got response, want, when string) {
	c.t.Helper()
	if all := got.header.Get(AllHeader); got.status != http.StatusOK || all != want {
		c.errorf("%s: answered %d, AllFromContext returned %q, want 200 and %q", when, got.status, all, want)
	}
}

// listed returns the names of the members of a list field.
func listed(h http.Header, name string) (names []string) {
	list, err := httpsfv.UnmarshalList(h.Values(name))
	if err != nil {
		return []string{err.Error()}
	}
	for _, m := range list {
		names = append(names, fmt.Sprint(m.(httpsfv.Item).Value))
	}
	return names
}

// wantListed checks that the list fields of a response have a member for each
// of names, in any order.
func (c *trial) wantListed(got response, when string, names ...string) {
	c.t.Helper()
	if c.kit.NoFields {
		return
	}
	for _, field := range []string{ietfField, policyField} {
		found := listed(got.header, field)
		slices.Sort(found)
		slices.Sort(names)
		if !slices.Equal(found, names) {
			c.errorf("%s: %s has members for %q, want %q", when, field, found, names)
		}
	}
}
