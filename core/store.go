package core

import (
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

// delay is duration, and Never for the delay of what can never be granted.
func delay(micros int64) time.Duration {
	if micros == bucket.Never {
		return Never
	}
	return duration(micros)
}

type storeConfig = store.Config

// isNil reports whether v is nil or holds a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}
