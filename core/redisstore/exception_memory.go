package redisstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// readAgain is after how many polls without a change exceptions are read again:
// somebody may have written without the version.
const readAgain = 60

// exceptionMemory is what a store knows of a policy's exceptions. It keeps what
// it has read when Redis forgets it: absence is no removal.
type exceptionMemory struct {
	mu        sync.Mutex
	words     words
	version   string    // that of a hash with just these words; "": not known
	seen      string    // what Redis had when it was read last
	confirmed time.Time // Redis had no other words then than those known
	polls     int
	due       int // the poll that reads again without a change
	pause     int // how many polls that was away after the last failure to put words back
	now       *heldExceptions
	limiters  []*core.Limiter // that follow
}

// heldExceptions are exceptions as they were at an instant. Nobody changes
// them.
type heldExceptions struct {
	list    []Exception
	at      time.Time
	version int64 // no word has a higher stamp
}

// each calls do with the exceptions that hold at an instant, and returns when
// the next of them ends; zero: none does.
func (h *heldExceptions) each(now time.Time, do func(Exception)) (next time.Time) {
	if h == nil {
		return next
	}
	for _, e := range h.list {
		if end := h.at.Add(e.For); e.For > 0 {
			if !now.Before(end) {
				continue
			}
			if next.IsZero() || end.Before(next) {
				next = end
			}
		}
		do(e)
	}
	return next
}

// putBack is what a hash lacks of the words that a process remembers.
type putBack struct {
	expected string // the version that the hash has; another one means that somebody was faster
	version  string // that it has then
	fields   []byte // as exceptions.lua reads them

	blocks, overrides, removals int // of them, what changes who is limited
}

// lost reports whether Redis has lost what an operator said: requests would be
// decided otherwise.
func (p *putBack) lost() bool { return p.blocks+p.overrides+p.removals > 0 }

// appendPair appends two texts, each behind its length and a colon, as
// exceptions.lua reads them.
func appendPair(b []byte, field, value string) []byte {
	for _, text := range []string{field, value} {
		b = fmt.Appendf(b, "%d:%s", len(text), text)
	}
	return b
}

// confirm takes in that Redis had a version at an instant. It reports whether
// there is nothing to read.
func (m *exceptionMemory) confirm(version string, at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.polls++
	if version != m.seen || m.polls > m.due {
		return false
	}
	m.confirmed = at
	return true
}

// reading is what Redis has of a policy's exceptions.
type reading struct {
	fields      map[string]string
	now         time.Time // by the clock of Redis
	asked, read time.Time // by the clock of this process: before the call, and after it
}

// learn takes in what Redis has, and returns what it lacks; nil: nothing. The
// error says what can't be read.
func (m *exceptionMemory) learn(policy string, r reading) (*putBack, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	redis, before := wordsOf(r.fields), m.words
	var unseen time.Duration
	if !m.confirmed.IsZero() {
		unseen = r.read.Sub(m.confirmed)
	}
	m.words = mergeWords(before, redis, r.now, unseen)
	if !m.words.equal(before) {
		m.version = ""
	}
	m.seen, m.confirmed = r.fields[""], r.asked

	list, err := words{of: m.words.of, unreadable: redis.unreadable}.exceptions(policy, r.now)
	m.now = &heldExceptions{list, r.read, m.words.top}
	if m.words.equal(redis) {
		m.settle(r.fields[""])
		return nil, err
	}
	if m.version == "" {
		m.version = m.words.version()
	}
	m.due = m.polls
	return m.lacking(redis, r.now), err
}

// lacking returns how a hash with other words gets those of m. m.mu is held.
func (m *exceptionMemory) lacking(redis words, now time.Time) *putBack {
	p := &putBack{expected: m.seen, version: m.version}
	for field, mine := range m.words.of {
		theirs, known := redis.of[field]
		if known && mine == theirs {
			continue
		}
		p.fields = appendPair(p.fields, field, mine.String())
		switch kind, _, _ := strings.Cut(field, ":"); {
		case known && mine.says == theirs.says && mine.end == theirs.end: // only its stamp is new
		case mine.holds(now) && kind == blockField:
			p.blocks++
		case mine.holds(now):
			p.overrides++
		case known && theirs.holds(now):
			p.removals++
		}
	}
	for field := range redis.of {
		if _, ok := m.words.of[field]; !ok {
			p.fields = appendPair(p.fields, field, "")
		}
	}
	return p
}

// settle takes in that Redis has the words of m, under a version. m.mu is held.
func (m *exceptionMemory) settle(version string) {
	m.version, m.seen = version, version
	m.due, m.pause = m.polls+readAgain-1, 0
}

// wrote takes in that p was put back.
func (m *exceptionMemory) wrote(p *putBack) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.version == m.version { // nobody has read other words since
		m.settle(p.version)
	}
}

// failed takes in that Redis refused what was put back: attempts become rarer.
func (m *exceptionMemory) failed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pause = min(2*m.pause+1, readAgain)
	m.due = m.polls + m.pause
}

// held returns the exceptions that were read last, or nil, and when Redis last
// had no other words than those known.
func (m *exceptionMemory) held() (*heldExceptions, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now, m.confirmed
}

// follow notes limiters that follow, until the function that it returns is
// called.
func (m *exceptionMemory) follow(limiters []*core.Limiter) (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limiters = append(m.limiters, limiters...)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, l := range limiters {
			i := slices.Index(m.limiters, l) // one may follow twice
			m.limiters = slices.Delete(m.limiters, i, i+1)
		}
	}
}

// stats returns what is in force, and reports whether anybody follows. Limiters
// can differ, because one can't use what another can: it is the least of what
// they obey.
func (m *exceptionMemory) stats(policy string, now time.Time) (least storestats.Exceptions, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, l := range m.limiters {
		e, following := l.Exceptions(), l.Following()
		age, _ := following.Age(now)
		s := storestats.Exceptions{Policy: policy, Overrides: len(e.Overrides), Blocks: len(e.Blocked), Version: following.Version, Age: age}
		if i > 0 {
			s.Overrides, s.Blocks = min(s.Overrides, least.Overrides), min(s.Blocks, least.Blocks)
			s.Version, s.Age = min(s.Version, least.Version), max(s.Age, least.Age)
		}
		least = s
	}
	return least, len(m.limiters) > 0
}

// exceptionMemories are those of a store, by policy.
type exceptionMemories struct{ of sync.Map }

// memory returns that of a policy.
func (m *exceptionMemories) memory(policy string) *exceptionMemory {
	memory, _ := m.of.LoadOrStore(policy, &exceptionMemory{})
	return memory.(*exceptionMemory)
}

// stats returns what is in force of the policies that are followed, by their
// names.
func (m *exceptionMemories) stats() (list []storestats.Exceptions) {
	for policy, memory := range m.of.Range {
		if s, ok := memory.(*exceptionMemory).stats(policy.(string), time.Now()); ok {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b storestats.Exceptions) int { return cmp.Compare(a.Policy, b.Policy) })
	return list
}
