package redisstore

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

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
	held := f.memory.held()
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

// note notes in the limiters which version they obey, which is that of f.held, and that they follow since an instant; zero: they don't.
func (f *follower) note(since time.Time) {
	following := core.Following{Since: since, Read: f.memory.read()}
	if f.held != nil {
		following.Version = f.held.version
	}
	for _, l := range f.limiters {
		l.SetFollowing(following)
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
	hold := core.Exceptions{
		Overrides: make(map[string][]core.Limit), OverrideNotes: make(map[string]core.ExceptionNote), BlockNotes: make(map[string]core.ExceptionNote),
	}
	f.held.each(now, func(e Exception) {
		note := core.ExceptionNote{By: e.By, Reason: e.Reason}
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
