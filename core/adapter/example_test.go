package adapter_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// An adapter makes a Request of the framework's request, asks the engine and
// writes the refusal. Check yours with package adaptertest.
func Example() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(1)},
	}))
	byIP := adapter.ByIP()
	engine := adapter.New(limiter, func(x *request) (string, error) { return byIP(x) }, adapter.Options[*request]{})

	handler := func(w http.ResponseWriter, r *http.Request) {
		x := &request{r: r, w: w}
		switch a := engine.Begin(x, x); a.Verdict {
		case middleware.Denied:
			adapter.WriteProblem(w, core.Problem(a.Result()))
		case middleware.Failed:
			adapter.WriteProblem(w, adapter.Refuse(a))
		case middleware.Allowed:
			fmt.Fprint(w, "hello")
		}
	}
	for range 2 {
		w := httptest.NewRecorder()
		handler(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 200 0
	// 429 0
}

// request is a request of plain net/http.
type request struct {
	r    *http.Request
	w    http.ResponseWriter
	kept *middleware.Decision
}

func (x *request) Context() context.Context           { return x.r.Context() }
func (x *request) Method() string                     { return x.r.Method }
func (x *request) Path() string                       { return x.r.URL.Path }
func (x *request) RemoteAddr() string                 { return x.r.RemoteAddr }
func (x *request) LocalAddr() net.Addr                { return adapter.LocalAddr(x.r.Context()) }
func (x *request) ContentLength() int64               { return x.r.ContentLength }
func (x *request) Header(name string) []string        { return adapter.RequestHeader(x.r, name) }
func (x *request) Query(name string) string           { return x.r.URL.Query().Get(name) }
func (x *request) Param(name string) string           { return x.r.PathValue(name) }
func (x *request) Value(key any) any                  { return x.r.Context().Value(key) }
func (x *request) Response() core.HeaderWriter        { return x.w.Header() }
func (x *request) SetDecision(d *middleware.Decision) { x.kept = d }
func (x *request) Decision() *middleware.Decision     { return x.kept }

func (x *request) Route() (string, bool) { return x.r.Pattern, x.r.Pattern != "" }

func (x *request) Cookie(name string) string {
	if c, err := x.r.Cookie(name); err == nil {
		return c.Value
	}
	return ""
}

// encoded is a request of a protocol whose handlers read binary fields decoded.
type encoded struct{ *request }

func (encoded) BinaryIsEncoded() {}

// The padding does not count, nor do bits that carry no data.
func ExampleEncoded() {
	byToken := adapter.ByHeader("Token-Bin")
	for _, value := range []string{"YQ==", "YQ", "YR"} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Token-Bin", value)
		var x adapter.Request = encoded{&request{r: r}}
		fmt.Println(byToken(x))
	}
	// Output:
	// token-bin:a <nil>
	// token-bin:a <nil>
	// token-bin:a <nil>
}

// An OnError handler that answers with a page of its own needs the status.
func ExampleProblemOf() {
	for _, err := range []error{core.ErrNoKey, core.ErrUnavailable, fmt.Errorf("the database is away")} {
		fmt.Println(adapter.ProblemOf(context.Background(), err).Status)
	}
	// Output:
	// 400
	// 503
	// 500
}
