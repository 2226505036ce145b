package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

const pollInterval = time.Second

// FollowExceptions has limiters obey the exceptions of their policies that are
// in Redis, until ctx ends: call it in a goroutine.
//
//	go store.FollowExceptions(ctx, limiter)
//
// Operators write exceptions by the commands override and block of ratelimit,
// or by [Store.SetException], and none of them needs a deploy. They come after
// the policy's Overrides, and stay if it changes: see
// [core.Limiter.SetExceptions], which nobody else may call meanwhile.
//
// An exception ends at its end, by the clock of Redis, or when an operator
// removes it. While Redis does not answer, those read last hold. If Redis has
// lost some, such as by a restart, FollowExceptions writes them back, for all
// processes, and logs that as a warning. If it may not, they hold in this
// process.
//
// Each second it sends one HGET for each policy, all in one round trip unless
// several servers share the keys. It reads the rest after a change, and once a
// minute. Without it nothing is read. What it can't read is logged once.
func (s *Store) FollowExceptions(ctx context.Context, limiters ...*core.Limiter) {
	s.followExceptions(ctx, pollInterval, limiters)
}

// ReadExceptions has limiters obey the exceptions that are in Redis now, such
// as before a service takes its first request, and ends those that have an end.
// What the store has read before stays, also if Redis has lost it. The error
// joins what could not be read; the rest is in force.
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
		f.held, _ = f.memory.held()
		errs = append(errs, bad, f.set(time.Now()))
		f.note(l.Following().Since)
	}
	return errors.Join(errs...)
}

// recall reads the exceptions of a policy, and returns what Redis has lost of
// them. bad says which can't be read.
func (s *Store) recall(ctx context.Context, policy string) (lacking *putBack, bad, err error) {
	asked := time.Now()
	err = s.batches.within(ctx, func(ctx context.Context) error {
		fields, now, err := s.batches.exceptions(ctx, policy)
		if err == nil {
			lacking, bad = s.memories.memory(policy).learn(policy, reading{fields, now, asked, time.Now()})
		}
		return err
	})
	return lacking, bad, err
}

func (s *Store) followExceptions(ctx context.Context, interval time.Duration, limiters []*core.Limiter) {
	if s.mistaken() != nil { // NewLimiter has reported it
		return
	}
	var followers []*follower
	outage := &pollOutage{log: s.batches.logger, failing: make(map[string]bool)}
	for _, l := range limiters {
		if l == nil {
			continue
		}
		i := slices.IndexFunc(followers, func(f *follower) bool { return f.policy == l.Name() })
		if i < 0 {
			i = len(followers)
			followers = append(followers, &follower{policy: l.Name(), memory: s.memories.memory(l.Name()), log: s.batches.logger, outage: outage})
		}
		followers[i].limiters = append(followers[i].limiters, l)
	}
	for _, f := range followers {
		f.begin(time.Now())
		defer f.memory.follow(f.limiters)()
	}
	together := max(1, len(followers))
	if s.batches.sharded.Load() { // a shard that is away concerns its own policies alone
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
				sleep(ctx, interval)
			}
		})
	}
	running.Wait()
	for _, f := range followers {
		f.stop()
	}
}

// poll reads the exceptions of policies that have changed. It reports whether a
// connection may be lost.
func (s *Store) poll(ctx context.Context, followers []*follower) (unconnected bool) {
	ctx, cancel := context.WithTimeout(ctx, s.batches.connectTimeout())
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
	p := s.client.Pipeline()
	for _, f := range followers {
		versions = append(versions, p.HGet(ctx, s.exceptionsKey(f.policy), ""))
	}
	_, _ = p.Exec(ctx) // each command has its own error
	return versions, nil
}

// read reads the exceptions of f's policy if their version is another one than
// before, and puts back what Redis has lost.
func (s *Store) read(ctx context.Context, f *follower, reply *redis.StringCmd, asked time.Time) error {
	version, err := reply.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return foreignKey(s.batches.exceptionsKey(f.policy), err)
	}
	if f.memory.confirm(version, asked) {
		return nil
	}
	lacking, bad, err := s.recall(ctx, f.policy)
	if err != nil {
		return err
	}
	unreadable := ""
	if bad != nil {
		unreadable = bad.Error()
	}
	if unreadable != "" && unreadable != f.unreadable {
		f.warn(bad)
	}
	f.unreadable = unreadable
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
	since      time.Time
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
	held, _ := f.memory.held()
	f.mu.Lock()
	same := held == f.held
	f.held = held
	f.mu.Unlock()
	if !same {
		f.obey()
	}
	f.note(f.since)
}

// begin notes that f follows from an instant on.
func (f *follower) begin(now time.Time) {
	f.since = now
	for _, l := range f.limiters {
		following := l.Following()
		following.Since = now
		l.SetFollowing(following)
	}
}

// note notes in the limiters which version they obey, which is that of f.held,
// and that they follow since an instant; zero: they don't.
func (f *follower) note(since time.Time) {
	following := store.Following{Since: since}
	_, following.Read = f.memory.held()
	if f.held != nil {
		following.Version = f.held.version
	}
	for _, l := range f.limiters {
		l.SetFollowing(following)
	}
}

// obey sets the exceptions that hold now, and has a timer call it again when
// the next of them ends: a poll may take longer.
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
	hold := core.Exceptions{
		Overrides: make(map[string][]core.Limit), OverrideNotes: make(map[string]store.ExceptionNote), BlockNotes: make(map[string]store.ExceptionNote),
	}
	f.held.each(now, func(e Exception) {
		note := store.ExceptionNote{By: e.By, Reason: e.Reason}
		if e.For > 0 { // to the second, so that each reading notes the same
			note.Until = f.held.at.Add(e.For).UTC().Round(time.Second)
		}
		if e.Blocks() {
			hold.Blocked, hold.BlockNotes[e.Key] = append(hold.Blocked, e.Key), note
		} else {
			hold.Overrides[e.Key], hold.OverrideNotes[e.Key] = e.Limits, note
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
	f.note(time.Time{})
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

// warn logs that exceptions of f's policy can't be read.
func (f *follower) warn(err error) { warnUnread(f.log().With("policy", f.policy), err) }

// lost logs that Redis has lost exceptions, and whether they were put back. err
// says why they were not.
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

// without returns e without the overrides in which err reports mistakes, such
// as the name of a limit that the policy no longer has: all else holds.
func without(e core.Exceptions, err error) core.Exceptions {
	rest := e
	rest.Overrides = maps.Clone(e.Overrides)
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return rest
	}
	for _, err := range joined.Unwrap() {
		if mistake := (*core.ConfigError)(nil); errors.As(err, &mistake) {
			maps.DeleteFunc(rest.Overrides, func(key string, _ []core.Limit) bool {
				return strings.HasPrefix(mistake.Field, "Exceptions.Overrides."+key+"[")
			})
		}
	}
	return rest
}

// warnUnread logs that exceptions can't be read.
func warnUnread(log *slog.Logger, err error) {
	log.Warn("ratelimit: not all exceptions in Redis could be read; those that were read are in force", "code", "RL718", "error", err)
}

// pollOutage logs that Redis can't be read, once for all policies until all of
// them were read again.
type pollOutage struct {
	log func() *slog.Logger

	mu      sync.Mutex      // guards all below
	failing map[string]bool // by policy
}

// note takes in the last poll of a policy. err is why it failed, unless that
// concerns this policy alone.
func (o *pollOutage) note(policy string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		delete(o.failing, policy)
		return
	}
	if len(o.failing) == 0 {
		warnUnread(o.log(), err)
	}
	o.failing[policy] = true
}
