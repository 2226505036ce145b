package main

import (
	"errors"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// gateway is the app, and its limiters.
type gateway struct {
	http.Handler
	keys, organisations *core.Limiter
}

// newGateway returns the app in front of a provider. It needs the policies "key" and "organisation".
func newGateway(store core.Store, policies map[string]core.Policy, provider string) (*gateway, error) {
	keys, err1 := core.NewLimiter(store, policies["key"])
	organisations, err2 := core.NewLimiter(store, policies["organisation"])
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	// Both limiters decide together: a call takes from its key and from its organisation, or from neither.
	limit := chilimit.NewTogether([]chilimit.Rule{
		{Limiter: keys, Key: func(r *http.Request) (string, error) { return callOf(r).key, nil }},
		{Limiter: organisations, Key: func(r *http.Request) (string, error) { return callOf(r).organisation, nil }},
	}, chilimit.WithUnits(estimate), chilimit.WithSettle(settle))

	r := chi.NewRouter()
	r.With(identify, limit).Post("/v1/generate", forward(provider))
	return &gateway{r, keys, organisations}, nil
}

// estimate is what a call is charged before it begins: a token for every 4 bytes of the prompt, and all that it may generate.
func estimate(r *http.Request) (core.Units, error) {
	c := callOf(r)
	return core.Units{"tokens": int64(len(c.Prompt)+3)/4 + c.MaxTokens}, nil
}

// settle is what the call took in the end. It is called when the stream is over, also if the client has gone.
func settle(r *http.Request, status int) core.Units {
	if status != http.StatusOK { // the provider generated nothing, so the call is free
		return core.Units{core.Requests: 0, "tokens": 0}
	}
	used := callOf(r).used
	return core.Units{"tokens": used.Prompt + used.Completion}
}
