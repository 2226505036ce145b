package storetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

func TestSmallestStoreConforms(t *testing.T) {
	Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		return &reference{now: clock, states: map[[2]string][]byte{}}
	})
}

func TestMemoryConforms(t *testing.T) {
	Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		return core.NewMemoryStore(core.WithClock(clock))
	})
}

// A store that forgets state at the earliest instant that Decide allows, decides
// several keys in one step and shows its state breaks no rule.
func TestStoreThatExpiresKeysOnTimeConforms(t *testing.T) {
	Run(t, func(_ *testing.T, clock func() time.Time) core.Store { return fault{}.store(clock) })
}

// Each fault breaks its rule, and each rule has a fault that breaks it.
func TestEachRuleFindsItsFault(t *testing.T) {
	for _, r := range rules {
		if len(faults[r.name]) == 0 {
			t.Errorf("no broken store fails the rule %q", r.name)
		}
		for _, f := range faults[r.name] {
			t.Run(r.name+"/"+f.name, func(t *testing.T) {
				c := &testClock{now: start}
				n := &notes{TB: t}
				most := time.Minute
				if f.hangs {
					most = 100 * time.Millisecond // which it can't keep, however quick the machine is
				}
				r.of(n, f.store(c.Now), c, most)
				if n.skipped.Load() || !n.failed.Load() || !strings.Contains(n.String(), r.name) {
					t.Errorf("the rule finds no fault, or does not name itself: skipped %v, failed %v, it says:\n%s",
						n.skipped.Load(), n.failed.Load(), n)
				}
			})
		}
	}
	for name := range faults {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.name == name }) {
			t.Errorf("a broken store is for the rule %q, which there is not", name)
		}
	}
}

// notes is a test that may fail.
type notes struct {
	testing.TB
	failed, skipped atomic.Bool
	mu              sync.Mutex
	strings.Builder
}

func (n *notes) Fail() { n.failed.Store(true) }

func (n *notes) Skip(...any) {
	n.skipped.Store(true)
	runtime.Goexit()
}

func (n *notes) Log(args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintln(n, args...)
}

func (n *notes) Errorf(format string, args ...any) {
	n.Log(fmt.Sprintf(format, args...))
	n.Fail()
}

// fault is what a broken store does in place of what is right. A nil function
// changes nothing.
type fault struct {
	name     string
	address  func(policy, key string) string
	key      func(key string) string
	now      func(s *broken, now time.Time) time.Time
	keeps    func(r *store.Request, a *store.Answer, ttl time.Duration) time.Duration
	request  func(s *broken, r *store.Request)
	state    func(s *broken, r *store.Request, state []byte) []byte
	answer   func(r *store.Request, a *store.Answer)
	keep     func(a *store.Answer, next []byte) bool // whether next is stored
	instead  func(s *broken, r store.Request) (store.Answer, error)
	together func(s *broken, requests []store.Request) ([]store.Answer, error)
	reset    func(s *broken, address string)
	shows    func(s *broken, state *store.State)
	early    bool                        // it reads the clock before its atomic step
	apart    func(r *store.Request) bool // these requests have no atomic step
	hangs    bool
}

// broken is a store with a fault. Without one it conforms.
type broken struct {
	fault
	clock   func() time.Time
	mu      sync.Mutex
	states  map[string][]byte
	expires map[string]time.Time
	more    map[any]any // of faults
	ended   bool        // the context of the call
}

func (f fault) store(clock func() time.Time) core.Store {
	if f.key == nil {
		f.key = strings.Clone
	}
	if f.address == nil {
		f.address = func(policy, key string) string { return core.JoinKey(policy, f.key(key)) }
	}
	return &broken{
		fault: f, clock: clock, states: map[string][]byte{}, expires: map[string]time.Time{}, more: map[any]any{},
	}
}

func (s *broken) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if s.instead != nil {
		s.ended = ctx.Err() != nil
		return s.instead(s, r)
	}
	var now time.Time
	if s.early {
		now = s.clock()
		runtime.Gosched()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.early {
		now = s.clock()
	}
	return s.decide(r, now)
}

// decide decides a request in one step. s.mu is held.
func (s *broken) decide(r store.Request, now time.Time) (a store.Answer, err error) {
	address := s.address(r.Policy(), r.Key())
	if s.request != nil {
		s.request(s, &r)
	}
	if s.fault.now != nil {
		now = s.fault.now(s, now)
	}
	if !now.Before(s.expires[address]) {
		delete(s.states, address)
	}
	state := s.states[address]
	if s.fault.state != nil && state != nil {
		state = s.fault.state(s, &r, state)
	}
	a, next, ttl, err := r.Decide(state, now)
	if s.apart != nil && s.apart(&r) {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	if s.keeps != nil {
		ttl = s.keeps(&r, &a, ttl)
	}
	if s.keep == nil && next != nil || s.keep != nil && s.keep(&a, next) {
		s.states[address], s.expires[address] = next, now.Add(ttl)
	}
	if s.answer != nil && err == nil {
		s.answer(&r, &a)
	}
	return a, err
}

func (s *broken) Reset(_ context.Context, policy, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	address := s.address(policy, key)
	if s.reset != nil {
		s.reset(s, address)
		return nil
	}
	delete(s.states, address)
	return nil
}

func (s *broken) DoTogether(_ context.Context, requests []store.Request) ([]store.Answer, error) {
	if s.together != nil {
		return s.together(s, requests)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answers, all, err := s.decideAll(requests, true)
	if all && err == nil {
		answers, _, err = s.decideAll(requests, false)
	}
	return answers, err
}

// decideAll decides requests one after another. If dry, none takes anything.
// s.mu is held.
func (s *broken) decideAll(requests []store.Request, dry bool) (answers []store.Answer, all bool, err error) {
	all = true
	for _, r := range requests {
		r.Dry = dry
		a, err := s.decide(r, s.clock())
		if err != nil {
			return nil, false, err
		}
		answers, all = append(answers, a), all && a.Allowed
	}
	return answers, all, nil
}

func (s *broken) State(_ context.Context, policy, key string) (store.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := store.State{Bytes: s.states[s.address(policy, key)], Now: s.clock()}
	if s.shows != nil {
		s.shows(s, &state)
	}
	return state, nil
}
