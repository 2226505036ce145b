package redisstore

import (
	"context"
	"errors"
	"log/slog"
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
		f := follower{limiters: []*core.Limiter{l}, held: s.memories.memory(l.Name()).held()}
		errs = append(errs, bad, f.set(time.Now()))
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
			f.memory.follow(1)
			defer f.memory.follow(-1)
			byPolicy[f.policy] = f
			followers = append(followers, f)
		}
		f.limiters = append(f.limiters, l)
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
	wrote, err := s.batches.changeExceptions(ctx, f.policy, "put", lacking.expected, lacking.version, lacking.fields)
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

// follower has the limiters of one policy obey its exceptions.
type follower struct {
	policy     string
	memory     *exceptionMemory
	log        func() *slog.Logger
	outage     *pollOutage
	failed     bool   // the last poll, because of the policy's own key
	refused    bool   // what was put back last; it was logged
	unreadable string // what was logged of exceptions that can't be read

	mu       sync.Mutex // guards all below
	limiters []*core.Limiter
	held     *heldExceptions
	timer    *time.Timer // calls obey when the next exception ends; nil: none does
	stopped  bool        // nothing may change any more
}

// catchUp obeys what was read last.
func (f *follower) catchUp() {
	held := f.memory.held()
	f.mu.Lock()
	same := held == f.held
	f.held = held
	f.mu.Unlock()
	if !same {
		f.obey()
	}
}

// obey sets the exceptions that hold now, and has a timer call it again when the next of them ends: a poll may take longer.
func (f *follower) obey() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	now := time.Now()
	if err := f.set(now); err != nil {
		f.warn(err)
	}
	if end := f.held.each(now, func(Exception) {}); !end.IsZero() {
		f.timer = time.AfterFunc(time.Until(end), f.obey)
	}
}

// set sets the exceptions that hold at an instant. f.mu is held.
func (f *follower) set(now time.Time) error {
	hold := core.Exceptions{Overrides: make(map[string][]core.Limit), Said: make(map[string]core.Said)}
	f.held.each(now, func(e Exception) {
		if e.Blocks() {
			hold.Blocked = append(hold.Blocked, e.Key)
		} else {
			said := core.Said{By: e.By, Reason: e.Reason}
			if e.For > 0 {
				said.Until = f.held.at.Add(e.For)
			}
			hold.Overrides[e.Key], hold.Said[e.Key] = e.Limits, said
		}
	})
	var errs []error
	for _, l := range f.limiters {
		err := l.SetExceptions(hold)
		if errs = append(errs, err); err != nil {
			errs = append(errs, l.SetExceptions(without(hold, err)))
		}
	}
	return errors.Join(errs...)
}

// stop has f change nothing any more.
func (f *follower) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped = true; f.timer != nil {
		f.timer.Stop()
	}
}

// report logs the first of several failures in a row.
func (f *follower) report(err error) {
	own := ofExceptionsKey(err)
	if own && !f.failed {
		f.warn(err)
	}
	f.failed = own
	if own {
		err = nil
	}
	f.outage.note(f.policy, err)
}

// warnOnce logs what can't be read, unless before says that it was logged. It returns what was.
func (f *follower) warnOnce(before string, err error) string {
	if err == nil {
		return ""
	}
	if err.Error() != before {
		f.warn(err)
	}
	return err.Error()
}

// warn logs that exceptions of f's policy can't be read.
func (f *follower) warn(err error) { warnUnread(f.log().With("policy", f.policy), err) }

// lost logs that Redis has lost exceptions, and whether they were put back. err says why they were not.
func (f *follower) lost(p *putBack, err error) {
	said := f.refused
	f.refused = err != nil
	if !p.lost() || said && err != nil {
		return
	}
	if err != nil {
		f.log().Warn("ratelimit: Redis has lost what operators said; it stays in force here, but could not be put back", "code", "RL719", "policy", f.policy,
			"blocks", p.blocks, "overrides", p.overrides, "removals", p.removals, "error", err)
		return
	}
	f.log().Warn("ratelimit: Redis has lost what operators said; it stays in force, and was put back", "code", "RL719", "policy", f.policy,
		"blocks", p.blocks, "overrides", p.overrides, "removals", p.removals)
}
