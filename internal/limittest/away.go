package limittest

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core/store"
)

// AwayStore fails every request with Err.
type AwayStore struct{ Err error }

func (s *AwayStore) Do(context.Context, store.Request) (store.Answer, error) {
	return store.Answer{}, s.Err
}
func (s *AwayStore) Reset(context.Context, string, string) error { return s.Err }
