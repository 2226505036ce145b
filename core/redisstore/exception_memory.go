package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// exceptionMemory is what a store knows of a policy's exceptions. It keeps what
// it has read when Redis forgets it: absence is no removal.
type exceptionMemory struct {
	policy string
	log    func() *slog.Logger

	mu        sync.Mutex        // guards all below
	entries   map[string]entry  // the newest of each key
	now       time.Time         // by the clock of Redis, when they were read last
	read      time.Time         // the same by the clock of this process
	seen      string            // the version that was read last
	confirmed time.Time         // Redis had no other version then; zero: nothing was read
	due       time.Time         // when to read again without another version, because something is still to be done; zero: never
	limiters  []*core.Limiter   // that follow; one may do so twice
	since     time.Time         // when the first of them began
	timer     *time.Timer       // calls obey when the next exception ends; nil: none does
	said      map[string]string // by code: the trouble that was logged last, until it is over
}

// memory returns that of a policy.
func (s *Store) memory(policy string) *exceptionMemory {
	m, _ := s.memories.LoadOrStore(policy, &exceptionMemory{
		policy: policy, log: s.batches.config.Log, entries: make(map[string]entry), said: make(map[string]string),
	})
	return m.(*exceptionMemory)
}

// confirm takes in the version that Redis has at an instant. It reports whether
// there is nothing to read.
func (m *exceptionMemory) confirm(version string, at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.confirmed.IsZero() || version != m.seen || !m.due.IsZero() && !at.Before(m.due) {
		return false
	}
	m.confirmed = at
	return true
}

// learn takes in what Redis has, after it was asked at an instant, and returns
// what it lacks. Of two entries the newer one counts, in whatever order processes
// learn. The error says what can't be read, without the keys.
//
// Redis has lost what it lacks, unless it may have dropped the removal since this
// process has read last.
func (m *exceptionMemory) learn(h *exceptionHash, asked time.Time) (lacking map[string]entry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := m.confirmed.IsZero()
	cutOff := asked.Round(0).Sub(m.confirmed.Round(0)) >= removedFor // by the wall clock, which goes on while a machine sleeps
	lacking = make(map[string]entry)
	for key, mine := range m.entries {
		theirs, there := h.entries[key]
		switch {
		case h.bad[key] != nil: // it may be newer, of a later version of this package
		case mine.stays(h.now) == 0, !there && cutOff:
			delete(m.entries, key)
		case !there, theirs.At < mine.At:
			lacking[key] = mine
		}
	}
	for key, theirs := range h.entries {
		if mine := m.entries[key]; mine.At < theirs.At && theirs.stays(h.now) > 0 {
			m.entries[key] = theirs
			if !first {
				m.log().Info("ratelimit: an operator has changed an exception", "policy", m.policy,
					"blocked", theirs.Blocked, "limits", theirs.Limits, "removed", theirs.Removed, "by", theirs.By, "reason", theirs.Why)
			}
		}
	}
	m.now, m.read, m.seen, m.confirmed, m.due = h.now, time.Now(), h.version, asked, time.Time{}
	if len(lacking) > 0 {
		m.due = asked
	}
	if len(h.bad) > 0 {
		err = fmt.Errorf("%d exceptions can't be read: ratelimit list shows which", len(h.bad))
	}
	return lacking, err
}

// retryAfter is when what Redis or a limiter refuses is tried again.
const retryAfter = 5 * time.Second

// wrote takes in that n entries, which Redis had lost, are there again, as the
// next poll will see; or why they are not.
func (m *exceptionMemory) wrote(n int, err error) {
	if err != nil {
		m.mu.Lock()
		m.due = time.Now().Add(retryAfter)
		m.mu.Unlock()
	}
	m.warn("RL719", "ratelimit: Redis has lost what operators said; it stays in force here, but could not be put back", err)
	if err == nil {
		m.log().Warn("ratelimit: Redis has lost what operators said; it stays in force, and was put back", "code", "RL719", "policy", m.policy, "exceptions", n)
	}
}

// warn logs a trouble, unless it was logged. Nil ends the trouble of that code.
func (m *exceptionMemory) warn(code, message string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		delete(m.said, code)
	} else if text := err.Error(); m.said[code] != text {
		m.said[code] = text
		m.log().Warn(message, "code", code, "policy", m.policy, "error", err)
	}
}

// unread is the message for exceptions that can't be read or used.
const unread = "ratelimit: not all exceptions in Redis could be read; those that were read are in force"

// obey has the limiters that follow obey, and others if they are given, and does
// so again when the next exception ends: a poll may take longer. The error says
// what they can't use, such as a limit that the policy no longer has: all else is
// in force.
func (m *exceptionMemory) obey(others ...*core.Limiter) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	if m.confirmed.IsZero() {
		return nil
	}
	now := m.now.Add(time.Since(m.read)) // by the clock of Redis
	hold := core.Exceptions{
		Overrides: make(map[string][]core.Limit), OverrideNotes: make(map[string]store.ExceptionNote), BlockNotes: make(map[string]store.ExceptionNote),
	}
	var next time.Time // when the next of them ends
	for key, e := range m.entries {
		if !e.holds(now) {
			continue
		}
		note := store.ExceptionNote{By: e.By, Reason: e.Why}
		if e.End > 0 {
			note.Until = time.UnixMilli(e.End).UTC()
			if next.IsZero() || note.Until.Before(next) {
				next = note.Until
			}
		}
		if e.Blocked {
			hold.Blocked, hold.BlockNotes[key] = append(hold.Blocked, key), note
		} else {
			hold.Overrides[key], hold.OverrideNotes[key] = e.Limits, note
		}
	}
	if !next.IsZero() && len(m.limiters) > 0 {
		m.timer = time.AfterFunc(next.Sub(now), func() { _ = m.obey() })
	}
	var errs []error
	for _, l := range slices.Concat(m.limiters, others) {
		err := l.SetExceptions(hold)
		if errs = append(errs, err); err != nil {
			usable, p := hold, l.Policy()
			usable.Overrides = maps.Clone(hold.Overrides)
			maps.DeleteFunc(usable.Overrides, func(key string, limits []core.Limit) bool {
				p.Overrides = map[string][]core.Limit{key: limits}
				return p.Validate() != nil
			})
			errs = append(errs, l.SetExceptions(usable))
		}
	}
	err := errors.Join(errs...)
	if err != nil && m.due.IsZero() { // another policy may have the limit
		m.due = time.Now().Add(retryAfter)
	}
	return err
}

// follow has a limiter obey from now on, until the function that it returns is
// called.
func (m *exceptionMemory) follow(l *core.Limiter) (end func()) {
	m.mu.Lock()
	if len(m.limiters) == 0 {
		m.since = time.Now()
	}
	m.limiters = append(m.limiters, l)
	m.mu.Unlock()
	_ = m.obey()
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		i := slices.Index(m.limiters, l)
		m.limiters = slices.Delete(m.limiters, i, i+1)
		if m.timer != nil && len(m.limiters) == 0 {
			m.timer.Stop()
		}
	}
}

// exceptionStats returns what is in force of the policies that are followed, by
// their names: what the first limiter obeys.
func (s *Store) exceptionStats() (list []storestats.Exceptions) {
	for _, one := range s.memories.Range {
		m := one.(*exceptionMemory)
		m.mu.Lock()
		if len(m.limiters) > 0 {
			e, last := m.limiters[0].Exceptions(), m.since
			if m.confirmed.After(last) {
				last = m.confirmed
			}
			stats := storestats.Exceptions{Policy: m.policy, Overrides: len(e.Overrides), Blocks: len(e.Blocked), Age: time.Since(last)}
			for _, e := range m.entries {
				stats.Version = max(stats.Version, e.At)
			}
			list = append(list, stats)
		}
		m.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b storestats.Exceptions) int { return cmp.Compare(a.Policy, b.Policy) })
	return list
}
