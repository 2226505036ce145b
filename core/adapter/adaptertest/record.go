package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
)

// record is what the functions and handlers of an app have seen, and what they
// are to do.
type record struct {
	store    core.Store
	netHTTP  bool
	limiters map[string]*core.Limiter

	began, goOn chan struct{} // of handlers that wait

	mu       sync.Mutex
	reply    reply          // of the next requests
	calls    map[string]int // of the app's functions, by what they are for
	keys     []string       // that were decided, as observers get them
	handled  []string       // what handlers got from FromContext and AllFromContext
	ends     []string       // calls of WithRefund and WithSettle
	refused  []any          // what OnDenied and OnError got
	failures []int          // statuses of errors of the framework that the app rendered
	values   [3]string      // header, cookie and query, as handlers read them
	results  []core.Result  // of Allow, and of FromContext
	address  string         // what ClientIP returned
	smuggled int            // requests for /free
}

// limiter returns the limiter of d. Those of one policy are one.
func (r *record) limiter(d limiter) *core.Limiter {
	if len(d.policy.Limits) == 0 || d.kind == asPerIP {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	name, store := fmt.Sprint(d.policy.Name, d.policy.Shadow), r.store
	if d.store != nil {
		store = d.store
	}
	if r.limiters[name] == nil {
		r.limiters[name] = core.Must(core.NewLimiter(store, d.policy, core.WithObserver(func(_ context.Context, o core.Observation) {
			if o.Outcome == core.OutcomeAllowed || o.Outcome == core.OutcomeDenied {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.keys = append(r.keys, strings.Clone(o.Key))
			}
		})))
	}
	return r.limiters[name]
}

func (r *record) called(what string) { r.note(func() { r.calls[what]++ }) }
func (r *record) fail(status int)    { r.note(func() { r.failures = append(r.failures, status) }) }
func (r *record) took(res core.Result) {
	r.note(func() { r.calls["Allow"]++; r.results = append(r.results, res) })
}

func (r *record) read(header, cookie, query string) {
	r.note(func() { r.values = [3]string{strings.Clone(header), strings.Clone(cookie), strings.Clone(query)} })
}

// note changes r.
func (r *record) note(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *record) refund(status int) bool {
	r.note(func() { r.ends = append(r.ends, fmt.Sprint("refund ", status)) })
	return status >= 400
}

// settle returns the units of a header field such as "3 words".
func (r *record) settle(status int, user, units string) core.Units {
	r.note(func() { r.ends = append(r.ends, strings.TrimSpace(fmt.Sprint("settle ", status, " ", user))) })
	if units == "panic" {
		panic(errInside)
	}
	n, unit, ok := strings.Cut(units, " ")
	if !ok {
		return nil
	}
	return core.Units{strings.Clone(unit): number(n, 0)}
}

func (r *record) denied(res core.Result) (status int, body string) {
	r.note(func() { r.refused = append(r.refused, res) })
	return r.ownAnswer()
}

func (r *record) failed(err error) (status int, body string) {
	r.note(func() { r.refused = append(r.refused, err) })
	return r.ownAnswer()
}

// own is what OnDenied and OnError answer.
const own = "short and stout"

func (r *record) ownAnswer() (status int, body string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reply.silent {
		return 0, ""
	}
	return http.StatusTeapot, own
}

// client notes what ClientIP returned.
func (r *record) client(ip string, err error) (key string) {
	r.note(func() {
		if r.address = strings.Clone(ip); err != nil {
			r.address = err.Error()
		}
	})
	return "all"
}

// reply is what a handler does.
type reply struct {
	Reply  // without a status, 200 and a body
	panics bool
	waits  bool // until goOn, after it has sent on began
	silent bool // OnDenied and OnError write nothing
}

// handle is the handler of all routes.
func (r *record) handle(_ context.Context, res core.Result, ok bool, all []core.Result) Reply {
	r.mu.Lock()
	does := r.reply
	r.handled, r.results = append(r.handled, seen(res, ok, all)), append(r.results, res)
	if does.Again != "" {
		r.reply = reply{} // when it comes back
	}
	r.mu.Unlock()
	if does.waits {
		r.began <- struct{}{}
		<-r.goOn
	}
	if does.panics {
		panic("handler")
	}
	if does.Status == 0 {
		does.Status, does.Body = http.StatusOK, "hello"
	}
	if r.netHTTP && does.HTTP == nil && (does.Stream != nil || does.Hijack != nil) {
		does.HTTP = does.serve
	}
	return does.Reply
}

// free is the handler of /free.
func (r *record) free(context.Context, core.Result, bool, []core.Result) Reply {
	r.note(func() { r.smuggled++ })
	return Reply{Status: http.StatusOK}
}

// seen describes what FromContext and AllFromContext returned: the first limit
// of each result with what it has left, the newest first, or "nothing".
func seen(res core.Result, ok bool, all []core.Result) string {
	if !ok && len(all) == 0 {
		return "nothing"
	}
	var list []string
	for _, res := range all {
		list = append(list, text(res))
	}
	if !ok || len(all) == 0 || text(res) != list[0] {
		list = append(list, fmt.Sprintf("but FromContext: %v %v", ok, text(res)))
	}
	return strings.Join(list, ", ")
}

func text(res core.Result) string {
	if len(res.Limits()) == 0 {
		return res.Source.String()
	}
	return fmt.Sprint(res.Limits()[0].Limit.Name, " ", res.Remaining)
}

// serve is Stream or Hijack in a handler of net/http.
func (r reply) serve(w http.ResponseWriter, _ *http.Request) {
	controller := http.NewResponseController(w)
	if r.Stream != nil {
		w.WriteHeader(r.Status)
		r.Stream(w, controller.Flush)
		return
	}
	conn, _, err := controller.Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(conn, switching)
	r.Hijack(conn)
	_ = conn.Close()
}

// upgrade asks for an upgrade, and switching is the answer.
const (
	upgrade   = "GET /other HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n"
	switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n"
)

// inside is in the text of errors. No client must see it.
const inside = "password=hunter2"

var errInside = errors.New("dial tcp: " + inside)
