package storetest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storetest"
)

// mapStore is the smallest store. It keeps every key for ever, so do not run it
// in production.
type mapStore struct {
	now func() time.Time

	mu     sync.Mutex
	states map[string][]byte
}

func newMapStore(now func() time.Time) *mapStore {
	return &mapStore{now: now, states: make(map[string][]byte)}
}

func (s *mapStore) Do(_ context.Context, r store.Request) (store.Answer, error) {
	address := core.JoinKey(r.Policy(), r.Key())
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, next, _, err := r.Decide(s.states[address], s.now())
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

func TestSmallestStoreConforms(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) core.Store { return newMapStore(clock) })
}

// expiringStore forgets state at the earliest instant that Decide allows.
type expiringStore struct {
	*mapStore
	expires map[string]time.Time
}

func (s *expiringStore) Do(_ context.Context, r store.Request) (store.Answer, error) {
	address := core.JoinKey(r.Policy(), r.Key())
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if at, ok := s.expires[address]; ok && !now.Before(at) {
		delete(s.states, address)
	}
	answer, next, ttl, err := r.Decide(s.states[address], now)
	if next != nil {
		s.states[address] = next
		s.expires[address] = now.Add(ttl)
	}
	return answer, err
}

func TestStoreThatExpiresKeysOnTimeConforms(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		return &expiringStore{newMapStore(clock), make(map[string]time.Time)}
	})
}
