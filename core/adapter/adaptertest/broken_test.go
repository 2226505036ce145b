package adaptertest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

type (
	onHTTP  = func(http.Handler) http.Handler
	httpKit = Kit[*http.Request, httplimit.KeyFunc, httplimit.Option, httplimit.Rule, onHTTP]
)

// An adapter that is broken fails the rule that it breaks, by its name. The
// sound one passes the rule.
func TestABrokenAdapterFailsTheRuleThatItBreaks(t *testing.T) {
	defer func(step, rule time.Duration) { patience.set(step); longest.set(rule) }(patience.get(), longest.get())
	for rule, breaks := range map[string]func(*httpKit){
		"a denied request does not reach the handler": func(k *httpKit) {
			k.New = instead(func(limited, next http.Handler, w http.ResponseWriter, r *http.Request) {
				limited.ServeHTTP(w, r)
				next.ServeHTTP(httptest.NewRecorder(), r)
			})
		},
		"OnDenied replaces the answer and keeps the fields": func(k *httpKit) {
			k.OnDenied = func(func(core.Result) (int, string)) httplimit.Option { return nil }
		},
		"WithCost sets the tokens, and 0 always passes": func(k *httpKit) {
			k.WithCost = func(func(*http.Request) (int64, error)) httplimit.Option { return nil }
		},
		"each function of the app is called once": func(k *httpKit) {
			k.WithCost = func(cost func(*http.Request) (int64, error)) httplimit.Option {
				return httplimit.WithCost(func(r *http.Request) (int64, error) { _, _ = cost(r); return cost(r) })
			}
		},
		"an error of the app is 500, and logged": func(k *httpKit) {
			k.New = func(l *core.Limiter, key httplimit.KeyFunc, _ ...httplimit.Option) onHTTP {
				return httplimit.New(l, key, httplimit.OnError(func(w http.ResponseWriter, _ *http.Request, err error) { http.Error(w, err.Error(), 500) }))
			}
		},
		"panics with all mistakes: ByHeader": func(k *httpKit) {
			k.ByHeader = func(string) httplimit.KeyFunc { return func(*http.Request) (string, error) { return "", nil } }
		},
		"the slot is taken until the handler returns": func(k *httpKit) {
			k.New = instead(func(_, next http.Handler, w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, r) })
		},
		"a slot is taken while the handler runs": func(k *httpKit) {
			k.New = instead(func(_, _ http.Handler, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		},
	} {
		t.Run(rule, func(t *testing.T) {
			broken := soundKit()
			breaks(&broken)
			patience.set(20 * time.Second)
			longest.set(time.Minute)
			if failed := failuresOf(rule, soundKit().adapter()); failed != nil {
				t.Fatalf("a sound adapter must pass: %q", failed)
			}
			patience.set(time.Second)
			longest.set(3 * time.Second)
			failed := failuresOf(rule, broken.adapter())
			if len(failed) == 0 {
				t.Fatal("the broken adapter passes")
			}
			for _, message := range failed {
				if !strings.HasPrefix(message, "the rule: "+rule+"\n") {
					t.Errorf("%q does not begin with the rule", message)
				}
			}
		})
	}
}

// soundKit describes httplimit, with what the rules of the test need.
func soundKit() httpKit {
	return httpKit{
		New: httplimit.New, ByIP: httplimit.ByIP, ByHeader: httplimit.ByHeader,
		WithCost: httplimit.WithCost, WithUnits: httplimit.WithUnits, WithPlan: httplimit.WithPlan, WithSkip: httplimit.WithSkip,
		OnDenied: func(denied func(core.Result) (int, string)) httplimit.Option {
			return httplimit.OnDenied(func(w http.ResponseWriter, _ *http.Request, res core.Result) {
				status, body := denied(res)
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			})
		},
		Header: func(r *http.Request, name string) string { return r.Header.Get(name) },
		Serve:  serveHTTP, ProblemBody: true, NetHTTP: true,
	}
}

func serveHTTP(l net.Listener, app App[onHTTP]) error {
	mux := http.NewServeMux()
	for _, route := range app.Routes {
		h := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			res, ok := httplimit.FromContext(r.Context())
			reply := route.Handle(r.Context(), res, ok, httplimit.AllFromContext(r.Context()))
			w.WriteHeader(reply.Status)
			_, _ = io.WriteString(w, reply.Body)
		}))
		for _, limited := range slices.Backward(slices.Concat(app.Use, route.Use)) {
			h = limited(h)
		}
		mux.Handle(route.Method+" "+route.Pattern, h)
	}
	return (&http.Server{Handler: mux, BaseContext: func(net.Listener) context.Context { return app.Context(context.Background()) }}).Serve(l)
}

// instead returns a broken New.
func instead(
	serve func(limited, next http.Handler, w http.ResponseWriter, r *http.Request),
) func(*core.Limiter, httplimit.KeyFunc, ...httplimit.Option) onHTTP {
	return func(l *core.Limiter, key httplimit.KeyFunc, options ...httplimit.Option) onHTTP {
		limited := httplimit.New(l, key, options...)
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(limited(next), next, w, r) })
		}
	}
}

// failuresOf returns the messages with which an adapter fails a rule.
func failuresOf(name string, a adapter) []string {
	rules := table()
	rule := rules[slices.IndexFunc(rules, func(r rule) bool { return r.name == name })]
	t := &recorder{}
	rule.check(t, a, func(clock store.Option) core.Store { return core.NewMemoryStore(clock) })
	for _, end := range slices.Backward(t.cleanups) {
		end()
	}
	return t.failed
}

// recorder is a test that keeps what its failures log.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failed   []string
	cleanups []func()
}

func (*recorder) Helper()                  {}
func (*recorder) Context() context.Context { return context.Background() }
func (r *recorder) Cleanup(end func())     { r.cleanups = append(r.cleanups, end) }

func (*recorder) Fail() {}

func (r *recorder) Log(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, fmt.Sprint(args...))
}

func (r *recorder) Errorf(format string, args ...any) { r.Log(fmt.Sprintf(format, args...)) }
