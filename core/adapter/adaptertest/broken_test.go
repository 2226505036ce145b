package adaptertest_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

type (
	onHTTP    = func(http.Handler) http.Handler
	brokenKit = adaptertest.Kit[*http.Request, httplimit.KeyFunc, httplimit.Option, httplimit.Rule, onHTTP]
)

// mistakes make adapters that hang some rule: what New returns, by what is
// wrong with it.
var mistakes = map[string]func(limited onHTTP) onHTTP{
	"none":         func(limited onHTTP) onHTTP { return limited },
	"never Done":   forgetful,
	"never answer": func(onHTTP) onHTTP { return func(http.Handler) http.Handler { return silent } },
}

// forgetful calls the next handler, and never tells the engine that it has
// returned.
func forgetful(limited onHTTP) onHTTP {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			over := make(chan struct{}, 1)
			go func() {
				limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					next.ServeHTTP(w, r)
					over <- struct{}{}
					select {}
				})).ServeHTTP(w, r)
				over <- struct{}{} // denied
			}()
			<-over
		})
	}
}

// silent never answers.
var silent = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })

const (
	adapterMistake = "ADAPTERTEST_MISTAKE"
	hungRule       = "Slots/a_slot_is_taken_while_the_handler_runs,_and_the_next_request_has_it_at_once"
)

// TestSuiteEndsOnAdaptersThatHang runs TestBrokenAdapter in another process,
// because a failing subtest fails the test around it.
func TestSuiteEndsOnAdaptersThatHang(t *testing.T) {
	for mistake := range mistakes {
		t.Run(mistake, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenAdapter$/^Slots$/^a_slot_is_taken_while_.*at_once$", "-test.v")
			cmd.Env = append(os.Environ(), adapterMistake+"="+mistake)
			out, err := cmd.CombinedOutput()
			if mistake == "none" {
				if err != nil || !strings.Contains(string(out), "--- PASS: TestBrokenAdapter/"+hungRule) {
					t.Fatalf("a sound adapter must pass: %v\n%s", err, out)
				}
				return
			}
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestBrokenAdapter/"+hungRule) || !strings.Contains(string(out), "the rule: a slot is taken while") {
				t.Fatalf("the rule must fail, and say its name: %v\n%s", err, out)
			}
		})
	}
}

func TestBrokenAdapter(t *testing.T) {
	broken, ok := mistakes[os.Getenv(adapterMistake)]
	if !ok {
		t.Skip("run by TestSuiteEndsOnAdaptersThatHang")
	}
	if os.Getenv(adapterMistake) != "none" {
		adaptertest.SetPatience(time.Second, 3*time.Second)
	}
	adaptertest.Run(t, brokenKit{
		New: func(l *core.Limiter, key httplimit.KeyFunc, options ...httplimit.Option) onHTTP {
			return broken(httplimit.New(l, key, options...))
		},
		Global: httplimit.Global, ByIP: httplimit.ByIP, ClientIP: httplimit.ClientIP, Serve: serve, ProblemBody: true,
	}, func(clock store.ClockOption) core.Store { return core.NewMemoryStore(clock) })
}

func serve(l net.Listener, app adaptertest.App[onHTTP]) error {
	mux := http.NewServeMux()
	for _, route := range app.Routes {
		mux.HandleFunc(route.Method+" "+route.Pattern, func(w http.ResponseWriter, r *http.Request) {
			reply := route.Handle(r.Context())
			w.WriteHeader(reply.Status)
			_, _ = io.WriteString(w, adaptertest.Body(httplimit.FromContext(r.Context())))
		})
	}
	h := http.Handler(mux)
	for _, m := range slices.Backward(app.Use) {
		h = m(h)
	}
	return (&http.Server{Handler: h, BaseContext: func(net.Listener) context.Context { return app.Context(context.Background()) }}).Serve(l)
}
