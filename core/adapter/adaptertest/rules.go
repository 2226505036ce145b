package adaptertest

import (
	"context"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// table returns the rules.
func table() [][]rule {
	return [][]rule{
		ofAnswers(), ofHeaders(), ofFailures(), ofErrors(), ofOptions(),
		ofAddresses(), ofFields(), ofRoutes(), ofKeys(), ofMissingKeys(), ofReading(), ofBuffers(),
		ofSeveral(), ofHandlers(), ofEnds(), ofStreams(), ofClients(), ofSlots(), ofConnections(), ofBodies(), ofMistakes(),
	}
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
func limit(p core.Policy, with ...option) app { return keyed(p, user, with...) }

// keyed is an app with one limiter in front of all routes.
func keyed(p core.Policy, k key, with ...option) app {
	l := limiter{policy: p, key: k}
	for _, o := range with {
		l.with |= o
	}
	return app{use: []limiter{l}}
}

// down is an app whose store does not answer.
func down(mode core.FailureMode, with ...option) app {
	a := limit(failing(tokens("test", 2), mode), with...)
	a.use[0].store = brokenStore{}
	return a
}

// stacked is an app with a limiter in front of all routes, and the others in
// front of each.
func stacked(limiters ...limiter) app { return app{use: limiters[:1], route: limiters[1:]} }

// from is a request of a user.
func from(name string, more ...string) request {
	return request{header: append([]string{"User", name}, more...)}
}

// fields is a request with header fields.
func fields(pairs ...string) request { return request{header: pairs} }

// post is a request with a body of n bytes.
func post(n int) request { return request{method: "POST", body: string(make([]byte, n))} }

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
