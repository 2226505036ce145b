package limittest

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core"
)

// AwayStore fails every request with Err.
type AwayStore struct{ Err error }

func (s *AwayStore) Do(context.Context, core.Request) (core.Answer, error) {
	return core.Answer{}, s.Err
}
func (s *AwayStore) Reset(context.Context, string, string) error { return s.Err }
