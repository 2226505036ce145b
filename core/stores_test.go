package core_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// askedStore is a store that is no MemoryStore, as those in other processes
// are, and that decides no requests together. It counts requests, and fails
// while it is down.
type askedStore struct {
	core.Store

	asked  atomic.Int64
	down   atomic.Bool
	before func(store.Request) // is called with each request, unless it is nil
}

// newAskedStore returns an askedStore in front of a MemoryStore.
func newAskedStore(options ...store.Option) *askedStore {
	return &askedStore{Store: core.NewMemoryStore(options...)}
}

func (s *askedStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	s.asked.Add(1)
	if s.before != nil {
		s.before(r)
	}
	if s.down.Load() {
		return store.Answer{}, errors.New("down")
	}
	return s.Store.Do(ctx, r)
}

// left returns what each limit of the key k has left.
func left(t *testing.T, l *core.Limiter) (list []int64) {
	t.Helper()
	res, err := l.Peek(context.Background(), "k")
	require.NoError(t, err)
	for _, limit := range res.Limits() {
		list = append(list, limit.Remaining)
	}
	return list
}

// wantLeft checks what the limits of the key k have left.
func wantLeft(t *testing.T, l *core.Limiter, rule string, want ...int64) {
	t.Helper()
	assert.Equal(t, want, left(t, l), rule)
}

// allow takes tokens or slots of the key k, which must be there.
func allow(t *testing.T, l *core.Limiter, n int64) *core.Result {
	t.Helper()
	res, err := l.AllowN(context.Background(), "k", n)
	require.NoError(t, err)
	require.True(t, res.Allowed, "premise")
	return &res
}
