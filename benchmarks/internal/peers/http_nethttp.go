package peers

import (
	"net/http"

	"github.com/didip/tollbooth/v8"
	tollboothlimiter "github.com/didip/tollbooth/v8/limiter"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/httprate"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// legacyHeader is among the default header fields of this library.
const legacyHeader = "X-Ratelimit-Limit"

func newLimiter(l Limit, headers core.HeaderStyle) *core.Limiter {
	return core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{l.core()}, Headers: headers,
	}))
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }

// NetHTTP is net/http.
func NetHTTP(l Limit) Framework {
	app := func(wrap func(http.Handler) http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /items/{id}", ok)
		if wrap == nil {
			return mux
		}
		return wrap(mux)
	}
	booth := newTollboothLimiter(l).SetIPLookup(tollboothlimiter.IPLookup{Name: "RemoteAddr"})
	return Framework{"net/http", []Middleware{
		{Without, "", serve(app(nil), "")},
		{Library, legacyHeader, serve(app(httplimit.New(newLimiter(l, core.HeadersDefault), httplimit.ByIP())), legacyHeader)},
		{"tollbooth", "Ratelimit-Limit", serve(app(tollbooth.HTTPMiddleware(booth)), "Ratelimit-Limit")},
	}}
}

// HTTPRate is the name of httprate among the middlewares.
const HTTPRate = "httprate"

// Chi is chi. KeyByIP is the quicker of httprate's ways to an address.
func Chi(l Limit) Framework {
	app := func(use ...func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Use(use...)
		r.Get("/items/{id}", ok)
		return r
	}
	ours := func(style core.HeaderStyle) func(http.Handler) http.Handler {
		return chilimit.New(newLimiter(l, style), chilimit.ByIP())
	}
	return Framework{"chi", []Middleware{
		{Without, "", serve(app(), "")},
		{Library, legacyHeader, serve(app(ours(core.HeadersDefault)), legacyHeader)},
		{LegacyFields, legacyHeader, serve(app(ours(core.HeadersLegacy)), legacyHeader)},
		//lint:ignore SA1019 the clients of benchmarks connect without a proxy
		{HTTPRate, legacyHeader, serve(app(httprate.LimitBy(l.Burst, window, httprate.KeyByIP)), legacyHeader)},
	}}
}
