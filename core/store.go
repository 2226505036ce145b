package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Store keeps buckets and decides requests on them. [MemoryStore] keeps them in
// one process; package redisstore shares them between processes. Package store
// is for those who write another one.
type Store = store.Store

// duration converts µs to a time.Duration.
func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }

type storeConfig = store.Config

// isNil reports whether v is nil or holds a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

// state returns the limits of key, and what the store keeps of its bucket.
func (l *Limiter) state(ctx context.Context, key string) (limits []Limit, p *bucket.LimitSet, state store.State, err error) {
	if err := checkKey(key); err != nil {
		return nil, nil, state, err
	}
	reader, ok := l.store.(store.StateReader)
	if !ok {
		return nil, nil, state, fmt.Errorf("ratelimit: this store does not show what it keeps: %w", errors.ErrUnsupported)
	}
	now := l.current()
	state, err = reader.State(ctx, now.policy.Name, store.Key(key))
	of := now.setOf(key)
	return of.limits, of.LimitSet, state, l.failed(ctx, key, err)
}
