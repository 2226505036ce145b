package storetest_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storetest"
)

// brokenStore is a mapStore with one mistake.
type brokenStore struct {
	*mapStore
	address   func(policy, key string) string
	do        func(s *brokenStore, address string, r store.Request) (store.Answer, error)
	keepReset bool
}

func (s *brokenStore) Do(_ context.Context, r store.Request) (store.Answer, error) {
	return s.do(s, s.address(r.Policy(), r.Key()), r)
}

func (s *brokenStore) Reset(ctx context.Context, policy, key string) error {
	if s.keepReset {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.states, s.address(policy, key))
	return nil
}

func sound(s *brokenStore, address string, r store.Request) (store.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, next, _, err := r.Decide(s.states[address], s.now())
	if next != nil {
		s.states[address] = next
	}
	return answer, err
}

// early reads the clock before the atomic step, and lets other goroutines
// decide in between.
func early(s *brokenStore, address string, r store.Request) (store.Answer, error) {
	now := s.now()
	runtime.Gosched()
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, next, _, err := r.Decide(s.states[address], now)
	if next != nil {
		s.states[address] = next
	}
	return answer, err
}

// mistake is a store with a common mistake, and the rule that must find it. The
// store of no rule is sound.
type mistake struct {
	rule     string
	store    brokenStore
	together togetherFunc // nil: it is no store.JointStore
}

var mistakes = map[string]mistake{
	"none": {rule: "", store: brokenStore{address: twoPart, do: sound}},
	"policy and key joined without escaping": {rule: "every_policy_and_key_has_a_bucket_of_its_own",
		store: brokenStore{address: func(policy, key string) string { return policy + ":" + key }, do: sound}},
	"clock read too early": {rule: "concurrent_requests_on_a_running_clock_get_no_more_than_MaxIn",
		store: brokenStore{address: twoPart, do: early}},
	"policy forgotten": {rule: "a_reset_leaves_other_buckets_alone",
		store: brokenStore{address: func(_, key string) string { return key }, do: sound}},
	"key cut at NUL": {rule: "every_policy_and_key_has_a_bucket_of_its_own",
		store: brokenStore{address: func(policy, key string) string { k, _, _ := strings.Cut(key, "\x00"); return twoPart(policy, k) }, do: sound}},
	"keys kept without a clone": {rule: "a_store_that_keeps_a_key_clones_it",
		store: brokenStore{address: func(_, key string) string { return key }, do: sound}},
	"next ignored": {rule: "a_granted_request_takes_its_cost",
		store: brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
			a, _, _, err := r.Decide(nil, s.now())
			return a, err
		}}},
	"next stored only when allowed": {rule: "a_clock_that_steps_back_never_stalls_a_bucket",
		store: brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			a, next, _, err := r.Decide(s.states[address], s.now())
			if a.Allowed && next != nil {
				s.states[address] = next
			}
			return a, err
		}}},
	"nil next stored": {rule: "a_denied_request_takes_nothing",
		store: brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			a, next, _, err := r.Decide(s.states[address], s.now())
			s.states[address] = next
			return a, err
		}}},
	"read and write apart": {rule: "concurrent_requests_get_exactly_the_capacity",
		store: brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
			s.mu.Lock()
			state := s.states[address]
			s.mu.Unlock()
			a, next, _, err := r.Decide(state, s.now())
			runtime.Gosched()
			s.mu.Lock()
			defer s.mu.Unlock()
			if next != nil {
				s.states[address] = next
			}
			return a, err
		}}},
	"clock in seconds": {rule: "RetryAfter_suffices_and_nothing_less_does",
		store: brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			a, next, _, err := r.Decide(s.states[address], s.now().Truncate(time.Second))
			if next != nil {
				s.states[address] = next
			}
			return a, err
		}}},
	"clock never back": {rule: "a_clock_that_steps_back_never_stalls_a_bucket",
		store: brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			now := s.now()
			if latest := time.Unix(0, 0); len(s.states["latest"]) > 0 {
				_ = latest.UnmarshalBinary(s.states["latest"])
				if now.Before(latest) {
					now = latest
				}
			}
			s.states["latest"], _ = now.MarshalBinary()
			a, next, _, err := r.Decide(s.states[address], now)
			if next != nil {
				s.states[address] = next
			}
			return a, err
		}}},
	"a lock that a denial keeps": {rule: "a_denied_request_takes_nothing",
		store: brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
			s.mu.Lock()
			a, next, _, err := r.Decide(s.states[address], s.now())
			if next != nil {
				s.states[address] = next
			}
			if err == nil && a.Allowed {
				s.mu.Unlock()
			}
			return a, err
		}}},
	"reset does nothing": {rule: "a_reset_makes_the_bucket_full",
		store: brokenStore{address: twoPart, do: sound, keepReset: true}},
}

func twoPart(policy, key string) string { return core.JoinKey(policy, key) }

const mistakeVar = "STORETEST_MISTAKE"

// TestSuiteFindsEachMistake runs TestBrokenStore in another process, because a
// failing subtest fails the test around it.
func TestBrokenStore(t *testing.T) {
	m, ok := allMistakes()[os.Getenv(mistakeVar)]
	if !ok {
		t.Skip("run by TestSuiteFindsEachMistake")
	}
	if m.rule != "" {
		storetest.SetLongest(3 * time.Second) // a sound store may take as long as it likes
	}
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		s := m.store
		s.mapStore = newMapStore(clock)
		if m.together != nil {
			return &brokenJointStore{&s, m.together}
		}
		return &s
	})
}

func TestSuiteFindsEachMistake(t *testing.T) {
	for name, mistake := range allMistakes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The rules that the mistake breaks besides may wait for what never
			// comes.
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenStore$/^"+regexp.QuoteMeta(mistake.rule), "-test.v")
			cmd.Env = append(os.Environ(), mistakeVar+"="+name)
			out, err := cmd.CombinedOutput()
			if mistake.rule == "" {
				if err != nil {
					t.Fatalf("a sound store must pass: %v\n%s", err, out)
				}
				return
			}
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestBrokenStore/"+mistake.rule+" ") {
				t.Fatalf("the suite must find this mistake by the rule %s: %v\n%s", mistake.rule, err, out)
			}
		})
	}
}
