package adaptertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bounded"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// rule is a line of the table.
type rule struct {
	name  string // says the rule
	needs need
	app   // what the server is configured with
	send  []exchange
	// script is what the client does after send.
	script func(c *check)
	// after is what limits have left for the key "all" at the end, such as
	// "calls 3, words 9".
	after  string
	logs   []string // each is in one line that the rule logs
	quiet  bool     // nothing is logged
	panics []string // the app is not built, because of these mistakes
}

// need is a set of abilities. The rule is left out for frameworks without them.
type need int

const (
	overHTTP  need = 1 << iota // not RPC
	onNetHTTP                  // neither RPC nor fasthttp
	offNetHTTP
	errorsOwn // errors of the framework have a status
	routeInUse
	routeNotInUse
	problems
	routesAgain
	contextEnds // with its client
)

// fits reports whether the framework has what the rule needs.
func (r *rule) fits(a adapter) bool {
	for need, has := range map[need]bool{
		overHTTP: !a.rpc, onNetHTTP: a.netHTTP && !a.rpc, offNetHTTP: !a.netHTTP && !a.rpc, errorsOwn: a.hasErrors,
		routeInUse: a.routeKnownInUse, routeNotInUse: !a.routeKnownInUse, problems: a.problemBody, routesAgain: a.routesAgain,
		contextEnds: a.netHTTP || a.rpc,
	} {
		if r.needs&need != 0 && !has {
			return false
		}
	}
	for _, l := range slices.Concat(r.use, r.route) {
		for _, l := range append(l.and, l) {
			if !a.has(l.key) || l.kind == asClientIP && !a.has(ip()) {
				return false
			}
		}
	}
	return true
}

// run checks the rules of the table.
func run(t *testing.T, a adapter, newStore func(option store.Option) core.Store) {
	for _, r := range table() {
		if r.fits(a) {
			t.Run(r.name, func(t *testing.T) { r.check(t, a, newStore) })
		}
	}
}

// check checks the rule with a new store.
func (r rule) check(t testing.TB, a adapter, newStore func(option store.Option) core.Store) {
	bounded.Check(t, r.name, longest.get(), func(t testing.TB) {
		c := &check{T: t, rule: r, adapter: a, clock: newClock()}
		c.record = &record{
			store: newStore(core.WithClock(c.clock.now)), netHTTP: a.netHTTP, limiters: make(map[string]*core.Limiter),
			calls: make(map[string]int), began: make(chan struct{}, 10), goOn: make(chan struct{}, 10),
		}
		c.run()
	})
}

// check is the check of one rule.
type check struct {
	T testing.TB
	rule
	adapter adapter
	clock   *clock
	*record
	server *server
}

func (c *check) errorf(format string, args ...any) {
	c.T.Helper()
	c.T.Errorf("the rule: %s\n%s", c.name, fmt.Sprintf(format, args...))
}

func (c *check) run() {
	if c.panics != nil {
		c.wantPanic()
		return
	}
	log := ""
	if c.quiet || c.logs != nil {
		log = logtest.Capture(c.exchanges)
	} else {
		c.exchanges()
	}
	if c.quiet && log != "" {
		c.errorf("it logged %s", log)
	}
	for _, line := range c.logs {
		line = strings.Replace(line, advice, c.adapter.routeAdvice, 1)
		if n := strings.Count(log, line); n != 1 {
			c.errorf("%q was logged %d times, want once: %s", line, n, log)
		}
	}
}

func (c *check) exchanges() {
	c.server = serve(c.T, func(l net.Listener) error { return c.adapter.serve(l, c.app, c.record) })
	for i, x := range c.send {
		for range max(1, x.times) {
			c.exchange(fmt.Sprint("request ", i+1), x)
		}
	}
	if c.script != nil {
		c.script(c)
	}
	c.wantAfter(c.after, "at the end")
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ends) > 0 {
		c.errorf("WithRefund and WithSettle were also called with %q", c.ends)
	}
}

// wantPanic checks that the app can't be built, and that the panic names each
// mistake, and no more.
func (c *check) wantPanic() {
	closed := newListener()
	_ = closed.Close()
	defer func() {
		mistake := fmt.Sprint(recover())
		for _, want := range c.panics {
			if !strings.Contains(mistake, want) {
				c.errorf("building the app panicked with %s, want %q", mistake, want)
			}
		}
		if n := strings.Count(mistake, "(RL"); n != len(c.panics) {
			c.errorf("building the app panicked with %d mistakes, want %d: %s", n, len(c.panics), mistake)
		}
	}()
	_ = c.adapter.serve(closed, c.app, c.record)
}

// exchange is a request and what must come back.
//
// Whatever it says, the handler is called once, or not at all if the limiter
// answers. Denials, and answers of requests that were decided, have the fields
// of the limits. Other answers have none. No answer shows an internal error.
type exchange struct {
	request
	reply reply // of the handler
	times int   // it is sent so often; 0 is once

	status int      // that the client gets
	left   string   // what AllFromContext returns to the handler, such as "inner 4, outer 8", and FromContext the first; "" is anything
	key    string   // that the limiter decides; "" is anything
	fields []string // names and values in turns of the answer's fields; "" is none
	listed string   // the limits in RateLimit and RateLimit-Policy, in any order
	plain  bool     // nothing was decided, or it is not enforced
	never  bool     // the denial has no Retry-After
	lacks  string   // the limits that the problem names
	own    bool     // OnDenied or OnError answers
	ends   []string // the calls of WithRefund and WithSettle since the request before
	once   []string // functions of the app that are each called once
}

// exchange sends a request and checks its answer.
func (c *check) exchange(when string, x exchange) {
	c.T.Helper()
	before := 0
	c.note(func() { c.reply, c.keys, before, c.failures = x.reply, nil, len(c.handled), nil; clear(c.calls) })
	got, err := c.server.try(context.Background(), x.request)
	if err != nil && x.reply.HTTP == nil {
		c.errorf("%s: %v", when, err)
		return
	}
	status := x.status
	if c.adapter.rpc && status < 400 {
		status = http.StatusOK
	}
	if err == nil && got.status != status {
		c.errorf("%s: answered %d, want %d\nheader %v\nbody %q", when, got.status, status, got.header, got.body)
		return
	}
	c.wantEnds(when, x.ends)
	c.mu.Lock()
	defer c.mu.Unlock()
	handled := c.handled[before:]
	refused := x.own || status >= 400 && x.reply.Status == 0 && x.reply.HTTP == nil && !x.reply.panics && status != http.StatusNotFound
	switch {
	case refused && c.calls["Allow"] > 0:
		c.errorf("%s: answered %d, and Allow returned that it is allowed", when, got.status)
	case refused && len(handled) != 0:
		c.errorf("%s: answered %d, and the handler was called too", when, got.status)
	case !refused && len(handled) != 1 && status != http.StatusNotFound:
		c.errorf("%s: the handler was called %d times, want once", when, len(handled))
	case x.left != "" && (len(handled) != 1 || handled[0] != x.left):
		c.errorf("%s: FromContext and AllFromContext returned %q, want %q", when, handled, x.left)
	}
	if x.key != "" && !slices.Equal(c.keys, []string{x.key}) {
		c.errorf("%s: the key is %q, want %q", when, c.keys, x.key)
	}
	for _, what := range x.once {
		if n := c.calls[what]; n != 1 {
			c.errorf("%s: the function for %s was called %d times, want once", when, what, n)
		}
	}
	if x.reply.HTTP == nil {
		c.wantAnswer(when, x, got, refused)
	}
}

// wantAnswer checks header fields and body of an answer.
func (c *check) wantAnswer(when string, x exchange, got response, refused bool) {
	denied := refused && got.status == http.StatusTooManyRequests
	if x.own && len(c.refused) > 0 {
		_, denied = c.refused[len(c.refused)-1].(core.Result)
	}
	if all := fmt.Sprint(got.header, got.body); strings.Contains(all, inside) || strings.Contains(all, "ratelimit:") {
		c.errorf("%s: the answer shows an internal error: %s", when, all)
	}
	decided := !x.plain && (denied || !refused || x.listed != "")
	reset := !refused && got.status >= 400 // errors of handlers may reset the response
	if found := limitFields(got.header); decided && !reset && !c.adapter.noFields && len(found) == 0 {
		c.errorf("%s: the answer %d has no fields of the limit", when, got.status)
	} else if !decided && len(found) > 0 {
		c.errorf("%s: the answer %d has fields of a limit without a decision that is enforced: %q", when, got.status, found)
	}
	after, _ := strconv.Atoi(got.header.Get("Retry-After"))
	none := x.never || x.own && c.adapter.noFields
	if cache := got.header.Get("Cache-Control"); denied && ((after < 1) != none || cache != "no-store") {
		c.errorf("%s: Retry-After is %q, wanted: %v; Cache-Control is %q, want no-store", when, got.header.Get("Retry-After"), !none, cache)
	}
	for i := 0; i < len(x.fields); i += 2 {
		name, want := x.fields[i], x.fields[i+1]
		if c.adapter.noFields && name != "Retry-After" {
			continue
		}
		if found := strings.Join(got.header.Values(name), " and "); found != want {
			c.errorf("%s: %s is %q, want %q", when, name, found, want)
		}
	}
	if x.listed != "" && !c.adapter.noFields {
		for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
			if names := listed(got.header, name); names != x.listed {
				c.errorf("%s: %s has members for %s, want %s", when, name, names, x.listed)
			}
		}
	}
	switch {
	case x.own && got.body != own:
		c.errorf("%s: answered %q, want what the app's own function wrote", when, got.body)
	case refused && !x.own && x.method != http.MethodHead:
		c.wantRefusal(when, x, got)
	}
}

// wantRefusal checks the default answer of a request that is not allowed.
func (c *check) wantRefusal(when string, x exchange, got response) {
	if !c.adapter.problemBody {
		if !slices.Equal(c.failures, []int{got.status}) {
			c.errorf("%s: the error handler got errors of status %v, want %d", when, c.failures, got.status)
		}
		return
	}
	var p core.ProblemDetails
	err, content := json.Unmarshal([]byte(got.body), &p), got.header.Get("Content-Type")
	if p.Type == "" || p.Title == "" || p.Status != got.status || content != "application/problem+json" {
		c.errorf("%s: the body is %q of %s (%v), want a problem with type, title and status %d",
			when, got.body, content, err, got.status)
	}
	slices.Sort(p.ViolatedPolicies)
	if lacks := strings.Join(p.ViolatedPolicies, ", "); x.lacks != "" && (lacks != x.lacks || p.Type != quotaExceeded) {
		c.errorf("%s: the problem is %+v, want type %s, and that %s lack tokens", when, p, quotaExceeded, x.lacks)
	}
}

const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// wantEnds waits for calls of WithRefund and WithSettle.
func (c *check) wantEnds(when string, want []string) {
	c.T.Helper()
	want = slices.Clone(want)
	for i := range want {
		if c.adapter.rpc {
			want[i] = strings.Replace(want[i], " 201", " 200", 1)
		}
	}
	var got []string
	c.eventually(func() bool {
		c.note(func() { got = slices.Clone(c.ends) })
		return len(got) >= len(want)
	})
	slices.Sort(got) // several limiters end a request in any order
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.errorf("%s: WithRefund and WithSettle were called with %q, want %q", when, got, want)
	}
	c.note(func() { c.ends = c.ends[len(got):] })
}

// wantAfter waits until limits have so many tokens left.
func (c *check) wantAfter(want, when string) {
	c.T.Helper()
	if want == "" {
		return
	}
	got := ""
	c.eventually(func() bool { got = c.allLeft(want); return got == want })
	if got != want {
		c.errorf("%s: left for the key all: %s, want %s", when, got, want)
	}
}

// allLeft returns what limits have left, in the order of those that are wanted.
func (c *check) allLeft(want string) string {
	left := make(map[string]int64)
	c.mu.Lock()
	limiters := slices.Collect(maps.Values(c.limiters))
	c.mu.Unlock()
	for _, l := range limiters {
		res, err := l.Peek(context.Background(), "all")
		if err != nil {
			continue // a store that does not answer
		}
		for _, limit := range res.Limits() {
			left[limit.Limit.Name] = limit.Remaining
		}
	}
	var list []string
	for one := range strings.SplitSeq(want, ", ") {
		name, _, _ := strings.Cut(one, " ")
		list = append(list, fmt.Sprint(name, " ", left[name]))
	}
	return strings.Join(list, ", ")
}

// eventually waits until done, or until patience ends.
func (c *check) eventually(done func() bool) {
	for end := time.Now().Add(patience.get()); !done() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// begin sends a request in the background, and waits until its handler waits.
// The response comes later; its status is 0 if there is none.
func (c *check) begin(ctx context.Context, does reply, fields ...string) <-chan response {
	c.T.Helper()
	does.waits = does.Stream == nil // otherwise its stream does
	c.note(func() { c.reply = does })
	answered := c.background(ctx, fields...)
	next(c, c.began, "the call of the handler")
	return answered
}

// background sends a request.
func (c *check) background(ctx context.Context, fields ...string) <-chan response {
	answered := make(chan response, 1)
	go func() {
		got, err := c.server.try(ctx, request{header: fields})
		if err != nil {
			got.status = 0
		}
		answered <- got
	}()
	return answered
}

// next returns the next value of ch. If none comes before patience ends, the
// rule fails.
func next[V any](c *check, ch <-chan V, what string) (v V) {
	c.T.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience.get()):
		c.T.Fatalf("the rule: %s\n%s never came", c.name, what)
	}
	return v
}

// open returns a new connection to the server on which text was sent.
func (c *check) open(text string) *wire {
	c.T.Helper()
	conn, err := c.server.dial(context.Background(), "")
	if err == nil {
		_, err = io.WriteString(conn, text)
	}
	if err != nil {
		c.T.Fatalf("the rule: %s\n%v", c.name, err)
	}
	return conn
}

// limitFields returns the fields of h that belong to any style.
func limitFields(h http.Header) (found []string) {
	for name := range h {
		if strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Ratelimit") {
			found = append(found, name)
		}
	}
	return found
}

// listed returns the names of the members of a list field, in order.
func listed(h http.Header, name string) string {
	list, err := httpsfv.UnmarshalList(h.Values(name))
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, m := range list {
		item, _ := m.(httpsfv.Item)
		names = append(names, fmt.Sprint(item.Value))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// clock stands still unless a rule moves it.
type clock struct{ micros atomic.Int64 }

// newClock returns a clock that stands between two seconds.
func newClock() *clock {
	var c clock
	c.micros.Store(time.Date(2026, 1, 2, 3, 4, 5, 250_000_000, time.UTC).UnixMicro())
	return &c
}

func (c *clock) now() time.Time          { return time.UnixMicro(c.micros.Load()) }
func (c *clock) advance(d time.Duration) { c.micros.Add(d.Microseconds()) }
