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

// pollInterval is how often processes look for new exceptions.
const pollInterval = time.Second

// FollowExceptions has limiters obey the exceptions of their policies that are in Redis, until ctx ends: call it in a goroutine.
//
//	go store.FollowExceptions(ctx, limiter)
//
// Operators write exceptions by the commands override and block of ratelimit, or by [Store.SetException], and none of them needs a
// deploy. They come after the policy's Overrides, and stay if it changes: see [core.Limiter.SetExceptions], which nobody
// else may call meanwhile.
//
// An exception ends at its end, by the clock of Redis, or when an operator removes it. While Redis does not answer, those read last hold.
// If Redis has lost some, such as by a restart, FollowExceptions writes them back, for all processes, and logs that as a warning. If it
// may not, they hold in this process.
//
// Each second it sends one HGET for each policy, all in one round trip unless several servers share the keys. It reads the rest after
// a change, and once a minute. Without it nothing is read. What it can't read is logged once.
func (s *Store) FollowExceptions(ctx context.Context, limiters ...*core.Limiter) {
	s.followExceptions(ctx, pollInterval, limiters)
}

// ReadExceptions has limiters obey the exceptions that are in Redis now, such as before a service takes its first request:
// FollowExceptions reads them too, but requests may come before. It also ends those that have an end. What the store has read before
// stays, also if Redis has lost it. The error joins what could not be read; the rest is in force.
func (s *Store) ReadExceptions(ctx context.Context, limiters ...*core.Limiter) error {
	var errs []error
	if err := s.mistaken(); err != nil {
		return err
	}
	for _, l := range limiters {
		if l == nil {
			continue
		}
		_, bad, err := s.recall(ctx, l.Name())
		if err != nil {
			errs = append(errs, &failure{inPolicy(l.Name()), err})
			continue
		}
		f := follower{limiters: []*core.Limiter{l}, memory: s.memories.memory(l.Name())}
		f.held = f.memory.held()
		errs = append(errs, bad, f.set(time.Now()))
		f.note(l.Following().Since)
	}
	return errors.Join(errs...)
}

// recall reads the exceptions of a policy, and returns what Redis has lost of them. bad says which can't be read.
func (s *Store) recall(ctx context.Context, policy string) (lacking *putBack, bad, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.batches.server.ConnectTimeout())
	defer cancel()
	asked := time.Now()
	fields, now, err := s.batches.exceptions(ctx, policy)
	if err != nil {
		return nil, nil, s.batches.exceptionsError(policy, err)
	}
	lacking, bad = s.memories.memory(policy).learn(policy, reading{fields, now, asked, time.Now()})
	return lacking, bad, nil
}

// followExceptions is FollowExceptions with another interval.
func (s *Store) followExceptions(ctx context.Context, interval time.Duration, limiters []*core.Limiter) {
	if s.mistaken() != nil { // NewLimiter has reported it
		return
	}
	var followers []*follower
	byPolicy := make(map[string]*follower)
	outage := &pollOutage{log: s.batches.server.logger, failing: make(map[string]bool)}
	for _, l := range limiters {
		if l == nil {
			continue
		}
		f := byPolicy[l.Name()]
		if f == nil {
			f = &follower{policy: l.Name(), memory: s.memories.memory(l.Name()), log: s.batches.server.logger, outage: outage}
			byPolicy[f.policy] = f
			followers = append(followers, f)
		}
		f.limiters = append(f.limiters, l)
	}
	for _, f := range followers {
		f.begin(time.Now())
		defer f.memory.follow(f.limiters)()
	}
	together := max(1, len(followers))
	if s.batches.server.sharded.Load() { // a shard that is away concerns its own policies alone
		together = 1
	}
	var running sync.WaitGroup
	for group := range slices.Chunk(followers, together) {
		running.Go(func() {
			for ctx.Err() == nil {
				if unconnected := s.poll(ctx, group); unconnected && ctx.Err() == nil {
					// So that the next poll finds a connection that works.
					_ = s.batches.nodes.find(s.batches.exceptionsKey(group[0].policy)).connect()
				}
				_ = sleepUntil(ctx, time.Now().Add(interval))
			}
		})
	}
	running.Wait()
	for _, f := range followers {
		f.stop()
	}
}

// poll reads the exceptions of policies that have changed. It reports whether a connection may be lost.
func (s *Store) poll(ctx context.Context, followers []*follower) (unconnected bool) {
	ctx, cancel := context.WithTimeout(ctx, s.batches.server.ConnectTimeout())
	defer cancel()
	asked := time.Now()
	versions, panicked := s.batches.versions(ctx, followers)
	for i, f := range followers {
		err := panicked
		if err == nil {
			err = s.read(ctx, f, versions[i], asked)
		}
		if ctx.Err() != context.Canceled {
			unconnected = unconnected || lost(err)
			f.report(err)
		}
		f.catchUp()
	}
	return unconnected
}

// versions asks for the version of each policy's exceptions.
func (s *batches) versions(ctx context.Context, followers []*follower) (versions []*redis.StringCmd, err error) {
	defer recovered(&err)
	p := s.server.client.Pipeline()
	for _, f := range followers {
		versions = append(versions, p.HGet(ctx, s.exceptionsKey(f.policy), ""))
	}
	_, _ = p.Exec(ctx) // each command has its own error
	return versions, nil
}

// read reads the exceptions of f's policy if their version is another one than before, and puts back what Redis has lost.
func (s *Store) read(ctx context.Context, f *follower, reply *redis.StringCmd, asked time.Time) error {
	version, err := reply.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return s.batches.exceptionsError(f.policy, err)
	}
	if f.memory.confirm(version, asked) {
		return nil
	}
	lacking, bad, err := s.recall(ctx, f.policy)
	if err != nil {
		return err
	}
	f.unreadable = f.warnOnce(f.unreadable, bad)
	if lacking == nil {
		f.refused = false
		return nil
	}
	wrote, err := s.batches.changeExceptions(ctx, f.policy, "put", lacking.expected, lacking.version, lacking.fields, lacking.change())
	switch {
	case err != nil:
		f.memory.failed()
		f.lost(lacking, err)
	case wrote > 0: // otherwise somebody was faster: the next poll looks again
		f.memory.wrote(lacking)
		f.lost(lacking, nil)
	}
	return nil
}

// sleepUntil waits until t, or until ctx ends.
func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
