package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// flakyStore fails each fifth request.
type flakyStore struct {
	core.Store
	executes bool // a request that fails takes its tokens nevertheless
	keeps    bool // requests that return tokens fail too, and return none

	count atomic.Int64
	mu    sync.Mutex // guards lost
	lost  map[string]int64
}

var errAway = errors.New("away")

func (s *flakyStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if !r.Takes() && !s.keeps || s.count.Add(1)%5 > 0 {
		return s.Store.Do(ctx, r)
	}
	if !r.Takes() {
		s.lose(&r, -1)
	} else if s.executes {
		if a, err := s.Store.Do(ctx, r); err == nil && a.Granted > 0 && !r.Dry {
			s.lose(&r, 1)
		}
	}
	return store.Answer{}, errAway
}

// lose notes that the tokens that r takes are lost, or with sign -1 those that
// it gives back.
func (s *flakyStore) lose(r *store.Request, sign int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = make(map[string]int64)
	}
	for i := range r.Set.Rates {
		s.lost[fmt.Sprintf("%s %s %d", r.Policy(), r.Key(), i)] += sign * r.Of(i)
	}
}

// lostOf is how many tokens of a limit are lost.
func (s *flakyStore) lostOf(limit string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost[limit]
}

// flakyJointStore decides requests together, and fails each fifth time.
type flakyJointStore struct {
	flakyStore
	joint store.JointStore
}

func (s *flakyJointStore) DoTogether(ctx context.Context, requests []store.Request) ([]store.Answer, error) {
	answers, err := s.joint.DoTogether(ctx, requests)
	if err != nil || s.count.Add(1)%5 > 0 {
		return answers, err
	}
	all := true
	for _, a := range answers {
		all = all && a.Granted > 0
	}
	for i := range requests {
		if all {
			s.lose(&requests[i], 1)
		}
	}
	return nil, errAway
}

// keepingStore gives nothing back.
type keepingStore struct{ core.Store }

func (s keepingStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if r.Action == bucket.Charge {
		return store.Answer{}, errAway
	}
	return s.Store.Do(ctx, r)
}

// If a bucket keeps the tokens of a request that was denied, only observers
// learn it.
func TestObserversReceiveWhatCouldNotBeGivenBack(t *testing.T) {
	ctx := t.Context()
	var seen []core.Observation
	first, err := core.NewLimiter(keepingStore{core.NewMemoryStore()}, core.Policy{Name: "a", Limits: []core.Limit{core.PerDay(10)}},
		core.WithObserver(func(_ context.Context, o core.Observation) { seen = append(seen, o) }))
	require.NoError(t, err)
	full := limittest.Limiter(t, core.NewMemoryStore(), "b", core.PerDay(1))
	limittest.Use(t, full, "k", 1)
	j, err := core.AllowTogether(ctx, core.Charge{Limiter: first, Key: "k"}, core.Charge{Limiter: full, Key: "k"})
	require.NoError(t, err)
	require.False(t, j.Allowed)
	require.Len(t, seen, 1)
	assert.Equal(t, core.OutcomeUnsettled, seen[0].Outcome)
	assert.Equal(t, "a", seen[0].Policy)
	require.ErrorIs(t, seen[0].Err, errAway)
}
