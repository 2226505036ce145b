package limittest

import (
	"context"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// DecidingStore is a store built on Request.Decide, as users write one.
type DecidingStore struct {
	now    func() time.Time
	mu     sync.Mutex
	States map[string][]byte
	Last   store.Request // the last request, for tests that need one
}

func NewDecidingStore(now func() time.Time) *DecidingStore {
	return &DecidingStore{now: now, States: make(map[string][]byte)}
}

func (s *DecidingStore) Do(_ context.Context, r store.Request) (store.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Last = r
	address := core.JoinKey(r.Policy(), r.Key())
	a, next, _, err := r.Decide(s.States[address], s.now())
	if next != nil {
		s.States[address] = next
	}
	return a, err
}

func (s *DecidingStore) Reset(_ context.Context, policy, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.States, core.JoinKey(policy, key))
	return nil
}
