package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// ending is a store whose contexts end just before a call: limiters call no
// store with one that has ended.
type ending struct {
	core.Store
	end func(context.Context) (context.Context, context.CancelFunc)
	err error // what the store has returned
}

func (s *ending) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	ctx, cancel := s.end(ctx)
	defer cancel()
	a, s.err = s.Store.Do(ctx, r)
	return a, s.err
}

// endedContext lets a store decide that does not look at the context, because it
// never waits.
func endedContext(s *subject) {
	canceled := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx, cancel
	}
	late := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithDeadline(ctx, time.Unix(0, 0))
	}
	for _, each := range []struct {
		end  func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{{canceled, context.Canceled}, {late, context.DeadlineExceeded}} {
		ends := &ending{Store: s.store, end: each.end}
		l, late := s.limiter(core.PerDay(100)), s.limiterOn(ends, "api", []core.Limit{core.PerDay(100)})
		before := s.allow(l, 0).Remaining
		if _, _ = late.Allow(s.Context(), key); ends.err == nil {
			s.left(l, "the store has decided, and returned no error", before-1)
		} else if !errors.Is(ends.err, each.want) {
			s.broken("the store returns the error %v, want %v", ends.err, each.want)
		}
	}
}
