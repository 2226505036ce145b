package adaptertest

import (
	"context"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// brokenStore never answers, and says why in words that are not for clients.
type brokenStore struct{}

func (brokenStore) Do(context.Context, core.Request) (core.Answer, error) {
	return core.Answer{}, errSecret
}

func (brokenStore) Reset(context.Context, string, string) error { return errSecret }

// announcedStore tells when it has answered.
type announcedStore struct {
	core.Store
	done chan struct{}
}

func (s announcedStore) Do(ctx context.Context, r core.Request) (core.Answer, error) {
	a, err := s.Store.Do(ctx, r)
	if err == nil {
		s.done <- struct{}{}
	}
	return a, err
}

// within reports whether ch is ready before patience ends.
func (c *trial[K, O]) within(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	case <-time.After(patience):
		return false
	}
}
