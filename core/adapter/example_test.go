package adapter_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

// An adapter shows the request, asks the engine and writes the refusal. Check yours with package adaptertest.
func Example() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(1)},
	}))
	byIP := adapter.ByIP()
	engine := adapter.New(limiter, func(x *exchange) (string, error) { return byIP(x) }, adapter.Options[*exchange]{})

	handler := func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{r: r, w: w}
		switch v := engine.Begin(x, x); v.Outcome {
		case adapter.Denied:
			adapter.WriteProblem(w, core.Problem(v.Result))
		case adapter.Failed:
			adapter.WriteProblem(w, adapter.Refuse(v))
		case adapter.Allowed:
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

// exchange shows a request of plain net/http.
type exchange struct {
	r    *http.Request
	w    http.ResponseWriter
	kept *adapter.Decision
}

func (x *exchange) Context() context.Context    { return x.r.Context() }
func (x *exchange) Method() string              { return x.r.Method }
func (x *exchange) Path() string                { return x.r.URL.Path }
func (x *exchange) RemoteAddr() string          { return x.r.RemoteAddr }
func (x *exchange) ContentLength() int64        { return x.r.ContentLength }
func (x *exchange) Header(name string) []string { return adapter.RequestHeader(x.r, name) }
func (x *exchange) Query(name string) string    { return x.r.URL.Query().Get(name) }
func (x *exchange) Param(name string) string    { return x.r.PathValue(name) }
func (x *exchange) Value(key any) any           { return x.r.Context().Value(key) }
func (x *exchange) Response() core.HeaderWriter { return x.w.Header() }
func (x *exchange) Keep(d *adapter.Decision)    { x.kept = d }
func (x *exchange) Kept() *adapter.Decision     { return x.kept }

func (x *exchange) Route() (string, bool) { return x.r.Pattern, x.r.Pattern != "" }

func (x *exchange) Cookie(name string) string {
	if c, err := x.r.Cookie(name); err == nil {
		return c.Value
	}
	return ""
}
