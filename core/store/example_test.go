package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// mapStore is the smallest store. It keeps every key for ever.
type mapStore struct {
	mu     sync.Mutex
	states map[string][]byte
}

// Do reads the clock and replaces the state in one step, under the lock.
func (s *mapStore) Do(_ context.Context, r store.Request) (store.Answer, error) {
	address := core.JoinKey(r.Policy(), r.Key())
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, next, _, err := r.Decide(s.states[address], time.Now())
	if next != nil {
		s.states[address] = next
	}
	return answer, err
}

func (s *mapStore) Reset(_ context.Context, policy, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.states, core.JoinKey(policy, key))
	return nil
}

// A store of your own keeps bytes, and Request.Decide does the arithmetic. Test
// the store with package storetest.
func ExampleStore() {
	limiter := core.Must(core.NewLimiter(&mapStore{states: map[string][]byte{}}, core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60)},
	}))
	res, _ := limiter.Allow(context.Background(), "ada")
	fmt.Println(res.Allowed, res.Remaining)
	// Output: true 59
}

// tracing is a store that prints each request before another store answers it.
type tracing struct{ core.Store }

func (s tracing) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	answer, err := s.Store.Do(ctx, r)
	fmt.Println(r.Policy(), r.Key(), answer.Allowed)
	return answer, err
}

// A Request names its bucket by policy and key.
func ExampleRequest() {
	limiter := core.Must(core.NewLimiter(tracing{core.NewMemoryStore()}, core.Policy{
		Name: "api", Limits: []core.Limit{core.PerDay(1)},
	}))
	_, _ = limiter.Allow(context.Background(), "ada")
	_, _ = limiter.Allow(context.Background(), "ada")
	// Output:
	// api ada true
	// api ada false
}

// A store that wraps another returns the other's Answer, and may read Allowed.
func ExampleAnswer() {
	limiter := core.Must(core.NewLimiter(tracing{core.NewMemoryStore()}, core.Policy{
		Name: "login", Limits: []core.Limit{core.PerHour(5)},
	}))
	_, _ = limiter.AllowN(context.Background(), "ada", 6)
	// Output: login ada false
}

// State that this library did not write is an error of that key alone. The
// failure mode decides its requests until Reset makes the key usable again.
func ExampleStateError() {
	mine := &mapStore{states: map[string][]byte{core.JoinKey("api", "ada"): []byte("something else")}}
	limiter := core.Must(core.NewLimiter(mine, core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60)}, OnFailure: core.FailOpen,
	}))
	res, _ := limiter.Allow(context.Background(), "ada")
	if bad, ok := errors.AsType[*store.StateError](res.Cause); ok {
		fmt.Println(res.Allowed, bad)
		_ = limiter.Reset(context.Background(), "ada")
	}
	res, _ = limiter.Allow(context.Background(), "ada")
	fmt.Println(res.Remaining)
	// Output:
	// true stored state: the key holds no bucket (RL613)
	// 59
}

// optioned is a store that has options. NewLimiter reports the mistakes in
// them.
type optioned struct {
	core.Store

	config store.Config
}

func (s *optioned) Config() *store.Config { return &s.config }

func ExampleConfigured() {
	mine := &optioned{Store: &mapStore{states: map[string][]byte{}}}
	mine.config.ArgumentError("WithShards", -1, "must be at least 1")
	_, err := core.NewLimiter(mine, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}})
	fmt.Println(err)
	// Output: ratelimit: policy "api": WithShards: -1 must be at least 1
}

// A store of your own takes the options that all stores share.
func ExampleOption() {
	var mine optioned
	for _, o := range []store.Option{core.WithClock(time.Now), core.WithLogger(nil)} {
		o.ConfigureStore(&mine.config)
	}
	fmt.Println(mine.config.Clock != nil, len(mine.config.ArgumentErrors))
	// Output: true 0
}

func ExampleConfig() {
	var config store.Config
	config.ArgumentError("WithShards", -1, "must be at least 1")
	fmt.Println(config.ArgumentErrors[0] == store.ArgumentError{Field: "WithShards", Value: -1, Reason: "must be at least 1"})
	// Output: true
}

func ExampleMemory() {
	memory := store.NewMemory(core.WithMaxKeys(1000))
	limiter := core.Must(core.NewLimiter(memory, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	_, _ = limiter.Allow(context.Background(), "ada")
	fmt.Println(memory.Len(), "key")
	// Output: 1 key
}

// tracingJoint is tracing for requests that are decided together.
type tracingJoint struct{ store.JointStore }

func (s tracingJoint) DoTogether(ctx context.Context, requests []store.Request) ([]store.Answer, error) {
	answers, err := s.JointStore.DoTogether(ctx, requests)
	for i, a := range answers {
		fmt.Println(requests[i].Policy(), a.Allowed)
	}
	return answers, err
}

// Limiters of one store decide in one step if the store is a JointStore, as
// this package's is and that on Redis.
func ExampleJointStore() {
	mine := tracingJoint{core.NewMemoryStore()}
	user := core.Must(core.NewLimiter(mine, core.Policy{Name: "user", Limits: []core.Limit{core.PerMinute(60)}}))
	organisation := core.Must(core.NewLimiter(mine, core.Policy{Name: "organisation", Limits: []core.Limit{core.PerDay(5)}}))
	_, _ = core.AllowTogether(context.Background(),
		core.Charge{Limiter: user, Key: "ada"}, core.Charge{Limiter: organisation, Key: "acme", Cost: 6})
	// Output:
	// organisation false
	// user true
}

// A store that keeps bytes can show them to tools.
func (s *mapStore) State(_ context.Context, policy, key string) (store.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.State{Bytes: s.states[core.JoinKey(policy, key)], Now: time.Now()}, nil
}

func ExampleStateReader() {
	var mine store.StateReader = &mapStore{states: map[string][]byte{}}
	limiter := core.Must(core.NewLimiter(mine, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	_, _ = limiter.Allow(context.Background(), "ada")
	state, _ := mine.State(context.Background(), "api", "ada")
	fmt.Println(len(state.Bytes) > 0)
	// Output: true
}

// Tools show who has set an override, and why.
func ExampleExceptionNote() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(100)}}))
	err := limiter.SetExceptions(core.Exceptions{
		Overrides:     map[string][]core.Limit{store.Key("user:ada"): {core.PerHour(1000)}},
		OverrideNotes: map[string]store.ExceptionNote{store.Key("user:ada"): {By: "ann", Reason: "launch"}},
	})
	said := limiter.Exceptions().OverrideNotes[store.Key("user:ada")]
	fmt.Println(err, said.By, said.Reason)
	// Output: <nil> ann launch
}
