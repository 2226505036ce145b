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

const (
	// pollInterval is how often processes look for new exceptions.
	pollInterval = time.Second
	// readAgain is after how many polls they read them without a change: the clock of Redis may have stepped, or somebody may have
	// written without the version.
	readAgain = 60
)

// FollowExceptions has limiters obey the exceptions of their policies that are in Redis, until ctx ends: call it in a goroutine.
//
//	go store.FollowExceptions(ctx, limiter)
//
// Operators write exceptions by the commands override and block of ratelimit, or by [Store.SetException], and none of them needs a
// deploy. They come before the policy's Overrides and Blocked, and stay if it changes: see [core.Limiter.SetExceptions], which nobody
// else may call meanwhile. While Redis does not answer, those read last hold until they end.
//
// Each second it sends one HGET for each limiter, all in one round trip unless several servers share the keys. It reads the rest after
// a change, and once a minute. Without it nothing is read. What it can't read is logged once.
func (s *Store) FollowExceptions(ctx context.Context, limiters ...*core.Limiter) {
	s.followExceptions(ctx, pollInterval, limiters)
}

// ReadExceptions has limiters obey the exceptions that are in Redis now, such as before a service takes its first request:
// FollowExceptions reads them too, but requests may come before. It also ends those that have an end. The error joins what could not be
// read; the rest is in force.
func (s *Store) ReadExceptions(ctx context.Context, limiters ...*core.Limiter) error {
	var errs []error
	for _, l := range limiters {
		if l == nil {
			continue
		}
		list, err := s.Exceptions(ctx, l.Name())
		if errs = append(errs, err); err == nil || list != nil {
			f := follower{limiter: l, list: list, at: time.Now()}
			errs = append(errs, l.SetExceptions(f.hold(f.at)))
		}
	}
	return errors.Join(errs...)
}

// followExceptions is FollowExceptions with another interval.
func (s *Store) followExceptions(ctx context.Context, interval time.Duration, limiters []*core.Limiter) {
	if s.mistaken() != nil { // NewLimiter has reported it
		return
	}
	var followers []*follower
	outage := &pollOutage{log: s.batches.server.logger, failing: make(map[*follower]bool)}
	for _, l := range limiters {
		if l != nil {
			followers = append(followers, &follower{limiter: l, log: s.batches.server.logger, outage: outage})
		}
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
					_ = s.batches.nodes.find(s.batches.exceptionsKey(group[0].limiter.Name())).connect()
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
	versions, panicked := s.batches.versions(ctx, followers)
	for i, f := range followers {
		err := panicked
		if err == nil {
			err = s.read(ctx, f, versions[i])
		}
		if ctx.Err() != context.Canceled {
			unconnected = unconnected || lost(err)
			f.report(s.batches.exceptionsError(f.limiter.Name(), err))
		}
	}
	return unconnected
}

// versions asks for the version of each policy's exceptions.
func (s *batches) versions(ctx context.Context, followers []*follower) (versions []*redis.StringCmd, err error) {
	defer recovered(&err)
	p := s.server.client.Pipeline()
	for _, f := range followers {
		versions = append(versions, p.HGet(ctx, s.exceptionsKey(f.limiter.Name()), ""))
	}
	_, _ = p.Exec(ctx) // each command has its own error
	return versions, nil
}

// read reads f's exceptions if their version is another one than before.
func (s *Store) read(ctx context.Context, f *follower, reply *redis.StringCmd) error {
	version, err := reply.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	if version == f.version && f.polls%readAgain != 0 {
		f.polls++
		return nil
	}
	fields, now, err := s.batches.exceptions(ctx, f.limiter.Name())
	if err != nil {
		return err
	}
	list, err := readExceptions(f.limiter.Name(), fields, now)
	unreadable := ""
	if err != nil {
		unreadable = err.Error()
	}
	if unreadable != "" && unreadable != f.unreadable {
		f.warn(err)
	}
	f.unreadable = unreadable
	f.polls++
	f.version = fields[""]
	f.follow(list, time.Now())
	return nil
}

// follower has one limiter obey the exceptions of its policy.
type follower struct {
	limiter *core.Limiter
	log     func() *slog.Logger
	outage  *pollOutage
	polls   int    // that succeeded
	failed  bool   // the last poll, because of the policy's own key
	version string // of list

	unreadable string // what was logged of list

	mu      sync.Mutex // guards all below
	list    []Exception
	at      time.Time   // when list was read
	end     time.Time   // when the next of list ends; zero: none does
	timer   *time.Timer // calls obey then; nil: none does
	stopped bool        // nothing may change any more
}

// follow obeys list, which was read at an instant, from now on.
func (f *follower) follow(list []Exception, at time.Time) {
	f.mu.Lock()
	f.list, f.at = list, at
	f.mu.Unlock()
	f.obey()
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
	if err := f.limiter.SetExceptions(f.hold(time.Now())); err != nil {
		f.warn(err)
	}
	if !f.end.IsZero() {
		f.timer = time.AfterFunc(time.Until(f.end), f.obey)
	}
}

// stop has f change nothing any more.
func (f *follower) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped = true; f.timer != nil {
		f.timer.Stop()
	}
}

// hold returns the exceptions that hold now, and sets when the next of them ends. f.mu is held.
func (f *follower) hold(now time.Time) core.Exceptions {
	f.end = time.Time{}
	hold := core.Exceptions{Overrides: make(map[string][]core.Limit)}
	for _, e := range f.list {
		if end := f.at.Add(e.For); e.For > 0 {
			if !now.Before(end) {
				continue
			}
			if f.end.IsZero() || end.Before(f.end) {
				f.end = end
			}
		}
		if e.Blocks() {
			hold.Blocked = append(hold.Blocked, e.Key)
		} else {
			hold.Overrides[e.Key] = e.Limits
		}
	}
	return hold
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
	f.outage.note(f, err)
}

// warn logs that exceptions of f's policy can't be read.
func (f *follower) warn(err error) { warnUnread(f.log().With("policy", f.limiter.Name()), err) }

// warnUnread logs that exceptions can't be read.
func warnUnread(log *slog.Logger, err error) {
	log.Warn("ratelimit: not all exceptions in Redis could be read; those that were read are in force", "code", "RL718", "error", err)
}

// pollOutage logs that Redis can't be read, once for all policies. Its end is when all of them were read again.
type pollOutage struct {
	log func() *slog.Logger

	mu      sync.Mutex // guards all below
	failing map[*follower]bool
}

// note takes in the last poll of f. err is why it failed, unless that concerns the policy of f alone.
func (o *pollOutage) note(f *follower, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		delete(o.failing, f)
		return
	}
	if len(o.failing) == 0 {
		warnUnread(o.log(), err)
	}
	o.failing[f] = true
}
