package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/breaker"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// power is what pages know of the box.
type power struct {
	Up   bool   `json:"up"`
	Text string `json:"text"`
}

// plug leads to the store that a replica has now.
type plug struct{ at atomic.Pointer[core.Store] }

func (p *plug) into(s core.Store) { p.at.Store(&s) }

func (p *plug) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	return (*p.at.Load()).Do(ctx, r)
}

func (p *plug) Reset(ctx context.Context, policy, key string) error {
	return (*p.at.Load()).Reset(ctx, policy, key)
}

// nothing is a store that is turned off.
type nothing struct{}

var errOff = errors.New("the store that stands in for Redis is turned off")

func (nothing) Do(context.Context, store.Request) (store.Answer, error) {
	return store.Answer{}, errOff
}
func (nothing) Reset(context.Context, string, string) error { return errOff }

// standIn is a store in this process that plays the Redis of two replicas. Each reaches it through a breaker of its own, as those of a
// Redis are.
type standIn struct {
	memory core.Store
	cables [2]*plug
}

func newStandIn() *standIn {
	s := &standIn{memory: core.NewMemoryStore(), cables: [2]*plug{{}, {}}}
	s.turn(true)
	return s
}

// of is the store of a replica.
func (s *standIn) of(replica int) core.Store {
	return breaker.New(s.cables[replica], time.Second, 5, 500*time.Millisecond)
}

func (s *standIn) turn(on bool) {
	for _, cable := range s.cables {
		if cable.into(nothing{}); on {
			cable.into(s.memory)
		}
	}
}
