package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
)

const pollInterval = time.Second

// FollowExceptions has limiters obey the exceptions of their policies that are
// in Redis, until ctx ends or the client is closed: call it in a goroutine.
//
//	go store.FollowExceptions(ctx, limiter)
//
// Operators write exceptions by the commands override and block of ratelimit,
// or by [Store.SetException], and none of them needs a deploy. They come after
// the policy's Overrides, and stay if it changes: see
// [core.Limiter.SetExceptions], which nobody else may call meanwhile. Each change
// is logged at level info, with who made it and why.
//
// An exception ends at its end, by the clock of Redis, or when an operator
// removes it. While Redis does not answer, those read last hold. If Redis has
// lost some, such as by a restart, FollowExceptions writes them back, for all
// processes, and logs that as a warning. If it may not, they hold in this
// process. A process that could not read for a week takes what Redis has.
//
// Each second it sends one HGET for each policy, all in one round trip unless
// several servers share the keys, and reads the rest after a change. Without it
// nothing is read. What it can't read is logged once.
func (s *Store) FollowExceptions(ctx context.Context, limiters ...*core.Limiter) {
	s.followExceptions(ctx, pollInterval, limiters)
}

// ReadExceptions has limiters obey the exceptions that are in Redis now, such
// as before a service takes its first request. A limiter that does not follow
// obeys them until the next call, also beyond their end. What the store has read
// before stays, also if Redis has lost it. The error joins what could not be
// read; the rest is in force.
func (s *Store) ReadExceptions(ctx context.Context, limiters ...*core.Limiter) error {
	var errs []error
	for _, l := range limiters {
		if l == nil {
			continue
		}
		m := s.memory(l.Name())
		var bad error
		err := s.ask(ctx, m.policy, func(ctx context.Context) error {
			asked := time.Now()
			h, err := s.batches.readExceptions(ctx, m.policy)
			if err == nil {
				_, bad = m.learn(h, asked)
			}
			return err
		})
		if errs = append(errs, err, bad); err == nil {
			errs = append(errs, m.obey(l))
		}
	}
	return errors.Join(errs...)
}

func (s *Store) followExceptions(ctx context.Context, interval time.Duration, limiters []*core.Limiter) {
	if s.mistaken() != nil { // NewLimiter has reported it
		return
	}
	var followed []*exceptionMemory
	for _, l := range limiters {
		if l == nil {
			continue
		}
		m := s.memory(l.Name())
		defer m.follow(l)()
		if !slices.Contains(followed, m) {
			followed = append(followed, m)
		}
	}
	together := max(1, len(followed))
	if s.batches.sharded.Load() { // a shard that is away concerns its own policies alone
		together = 1
	}
	var running sync.WaitGroup
	for group := range slices.Chunk(followed, together) {
		running.Go(func() {
			for away := false; ctx.Err() == nil; sleep(ctx, interval) {
				err := s.poll(ctx, group)
				if errors.Is(err, redis.ErrClosed) {
					return
				}
				if err != nil && ctx.Err() == nil {
					if !away {
						s.batches.config.Log().Warn(unread, "code", "RL718", "error", err)
					}
					if lost(err) { // so that the next poll finds a connection that works
						_ = s.Ping(ctx)
					}
				}
				away = err != nil
			}
		})
	}
	running.Wait()
}

// poll reads the exceptions of policies that have changed, and writes back what
// Redis has lost. An error that concerns a policy alone is logged; the others are
// joined.
func (s *Store) poll(ctx context.Context, followed []*exceptionMemory) error {
	return s.batches.within(ctx, func(ctx context.Context) error {
		asked := time.Now()
		p := s.batches.client.Pipeline()
		var versions []*redis.StringCmd
		for _, m := range followed {
			versions = append(versions, p.HGet(ctx, s.batches.exceptionsKey(m.policy), ""))
		}
		_, _ = p.Exec(ctx) // each command has its own error
		var errs []error
		for i, m := range followed {
			version, err := versions[i].Result()
			if err == nil || errors.Is(err, redis.Nil) {
				err = s.update(ctx, m, version, asked)
			} else {
				err = foreignKey(s.batches.exceptionsKey(m.policy), err)
			}
			if ofExceptionsKey(err) {
				m.warn("RL718", unread, err)
			} else {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
}

// update reads the exceptions of a policy unless they have the version that is
// known, and writes back what Redis has lost.
func (s *Store) update(ctx context.Context, m *exceptionMemory, version string, asked time.Time) error {
	if m.confirm(version, asked) {
		return nil
	}
	h, err := s.batches.readExceptions(ctx, m.policy)
	if err != nil {
		return err
	}
	lacking, err := m.learn(h, asked)
	m.warn("RL718", unread, errors.Join(err, m.obey()))
	if len(lacking) == 0 {
		return nil
	}
	next := h.next()
	for _, e := range lacking {
		next = max(next, e.At)
	}
	done, err := s.batches.change(ctx, m.policy, h, lacking, next)
	if done || err != nil && !lost(err) {
		m.wrote(len(lacking), err)
		return nil
	}
	return err // nil: somebody was faster. The next poll looks again
}
