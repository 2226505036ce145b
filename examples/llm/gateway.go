package main

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// app returns the gateway in front of a model. It needs the policies "address",
// "key" and "organisation".
func app(
	store core.Store, observe core.LimiterOption, policies map[string]core.Policy, m model, proxies ...string,
) http.Handler {
	limiter := func(name string) *core.Limiter { return core.Must(core.NewLimiter(store, policies[name], observe)) }
	// Both limiters decide together: a call takes from its key and from its
	// organisation, or from neither. Both are those of the verified key: a
	// client could make up others' names, and spend their budgets.
	limit := chilimit.NewTogether([]chilimit.Rule{
		{Limiter: limiter("key"), Key: func(r *http.Request) (string, error) { return callOf(r).key, nil }},
		{Limiter: limiter("organisation"), Key: func(r *http.Request) (string, error) { return callOf(r).organisation, nil }},
	}, chilimit.WithUnits(mostOf), chilimit.WithSettle(settle))

	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	// In front of the keys, or guessing at them would be free. It counts
	// requests without a route too.
	isHealth := func(r *http.Request) bool { return r.URL.Path == "/health" }
	r.Use(chilimit.New(limiter("address"), chilimit.ByIP(core.TrustProxies(proxies...)), chilimit.WithSkip(isHealth)))
	r.Get("/health", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	r.With(identify, limit).Post("/v1/generate", m.forward)
	return r
}

// mostOf is what a call can take at most, and what it is charged before it
// begins: a token has at least one byte. So no call makes a debt, which others
// of the organisation would wait for.
func mostOf(r *http.Request) (core.Units, error) {
	c := callOf(r)
	return core.Units{"tokens": int64(len(c.Prompt)) + c.MaxTokens}, nil
}

// settle is what the call took in the end, by the provider's word alone. The
// client can't get anything back by hanging up: the provider was paid for what
// it had begun.
func settle(r *http.Request, _ int) core.Units {
	c := callOf(r)
	switch most, _ := mostOf(r); {
	case c.refused:
		return core.Units{"tokens": 0} // its request stays charged: bad ones are not free
	case c.took != nil:
		return core.Units{"tokens": min(c.took.Prompt+c.took.Completion, most["tokens"])}
	default:
		return nil // all that it was charged stays charged
	}
}
