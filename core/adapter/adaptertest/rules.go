package adaptertest

import (
	"context"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// table returns all rules.
func table() []rule {
	return slices.Concat(
		answers, failures, clientErrors(), options, // answers.go
		addresses, extractors, routes, values, missingKeys(), readings(), buffers(), // keys.go
		several, again, handlers, // several.go
		endings, statuses(), clients, streams, slots, connections, takenOver(), // ends.go
		bodies(),   // bodies.go
		mistakes(), // mistakes.go
	)
}

// slow returns a limit of n tokens that gains one every 100 days. So it gains
// none while a rule is checked, even in a store that uses the real time.
func slow(name string, n int64) core.Limit {
	return core.Limit{Name: name, Capacity: n, RefillRate: 1, RefillInterval: 2400 * time.Hour}
}

// tokens is a policy of one limit of its name.
func tokens(name string, n int64) core.Policy {
	return core.Policy{Name: name, Limits: []core.Limit{slow(name, n)}}
}

// counting is a policy of two limits: calls counts requests, and words words.
func counting(calls, words int64) core.Policy {
	return core.Policy{Name: "counting", Limits: []core.Limit{slow("calls", calls), slow("words", words).WithUnit("words")}}
}

// inFlight is a policy of n slots.
func inFlight(name string, n int) core.Policy {
	return core.Policy{Name: name, Limits: []core.Limit{core.InFlight(n).WithName(name)}}
}

// failing is p with what happens if the store fails, and shadowed p in shadow
// mode.
func failing(p core.Policy, mode core.FailureMode) core.Policy { p.OnFailure = mode; return p }
func shadowed(p core.Policy) core.Policy                       { p.Shadow = true; return p }

// limit is an app with one limiter for the requests of user.
func limit(p core.Policy, with option) app { return keyed(p, user, with) }

// keyed is an app with one limiter in front of all routes.
func keyed(p core.Policy, k key, with option) app {
	return app{use: []limiter{{policy: p, key: k, with: with}}}
}

// down is an app whose store does not answer.
func down(mode core.FailureMode, with option) app {
	return app{use: []limiter{{policy: failing(tokens("test", 2), mode), key: user, with: with, store: brokenStore{}}}}
}

// stacked is an app with a limiter in front of all routes, and the others in
// front of each.
func stacked(limiters ...limiter) app { return app{use: limiters[:1], route: limiters[1:]} }

// from is a request of a user, with more header fields.
func from(name string, more ...string) request {
	return request{header: append([]string{"User", name}, more...)}
}

// having is a request with header fields.
func having(fields ...string) request { return request{header: fields} }

// post is a request with a body of n bytes.
func post(n int) request { return request{method: "POST", body: string(make([]byte, n))} }

// to is a request to a target.
func to(target string) request { return request{target: target} }

// raw is a request whose text is sent.
func raw(text string) request { return request{raw: text} }

// forwarded is a request from peer with lines of X-Forwarded-For.
func forwarded(peer string, lines ...string) request {
	r := request{peer: peer}
	for _, l := range lines {
		r.header = append(r.header, "X-Forwarded-For", l)
	}
	return r
}

// brokenStore always fails, with an error whose text is not for clients.
type brokenStore struct{}

func (brokenStore) Do(context.Context, store.Request) (store.Answer, error) {
	return store.Answer{}, errInside
}

func (brokenStore) Reset(context.Context, string, string) error { return errInside }

// ended returns a context that has ended.
func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
