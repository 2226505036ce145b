package clientlimit

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// lane is what a Transport knows of one limit of a key: who waits, until when
// all pause, how many may be under way, and how fast they may follow each other.
// lanes.mu guards it.
type lane struct {
	laneID
	calls int // that wait or are under way, until their answers are over

	queue []*call // that wait, in the order in which they came

	pausedUntil time.Time
	pauses      int // so far
	refusals    int // in a row, each of a call that was sent after the pause before

	// At first and after a pause one call goes alone. Each one that is served
	// makes room for one more. A second without an answer makes room for as many
	// again.
	underWay int       // calls that were sent since the last pause, and not answered
	window   int       // how many may be
	heard    time.Time // when the last answer came, or room was made without one

	limited time.Time     // the limiter has no tokens before
	spacing time.Duration // between two calls, by the limiter's rate
	slotted bool          // the limiter has slots, which can't be reserved

	pace pace
}

const (
	// longestPause is the longest pause, whatever the service asks for: then one
	// call goes.
	longestPause = time.Hour
	// firstBackoff and lastBackoff are pauses after refusals in a row that
	// don't say how long.
	firstBackoff, lastBackoff = time.Second, time.Minute
	// silence is how long calls wait for the answer to the one that went alone.
	silence = time.Second
)

// wait returns how long the next call has to wait, and for what.
func (l *lane) wait(now time.Time) (wait time.Duration, reason string) {
	later := func(until time.Time, why string) {
		if d := until.Sub(now); d > wait {
			wait, reason = d, why
		}
	}
	if l.pace.renewed(now) {
		l.window = 1 // that one asks what is left
	}
	later(l.pausedUntil, forPause)
	later(l.limited, forLimiter)
	later(now.Add(l.pace.wait(now)), forPace)
	if l.underWay >= l.window {
		if l.heard.Add(silence).After(now) {
			later(l.heard.Add(silence), forTurn)
		} else {
			l.window, l.heard = 2*l.window, now
		}
	}
	return wait, reason
}

// expected returns the least time that a call has to wait which comes now, and
// for what.
func (l *lane) expected(now time.Time) (time.Duration, string) {
	wait, reason := l.wait(now)
	ahead := float64(len(l.queue))
	more := l.pace.behind(ahead, now)
	if l.limited.After(now) {
		more = max(more, seconds(ahead*l.spacing.Seconds()))
	}
	if ahead > 0 && more > 0 {
		reason = forTurn
	}
	return wait + more, reason
}

// send notes that c is sent.
func (l *lane) send(c *call, now time.Time) {
	if l.underWay == 0 {
		l.heard = now
	}
	l.underWay++
	l.pace.tokens--
	c.pauses = l.pauses
}

// answered notes that c was answered, or has failed. It reports whether c was
// sent after the last pause began; otherwise it says nothing new.
func (l *lane) answered(c *call, now time.Time) (isNew bool) {
	if c.pauses != l.pauses {
		return false
	}
	l.underWay--
	l.heard = now
	return true
}

// served takes in an answer that was no refusal, and what it calls left.
func (l *lane) served(c *call, left []stock, now time.Time) {
	isNew := l.answered(c, now)
	if isNew {
		l.refusals = 0
		l.window = min(l.window+1, math.MaxInt32)
	}
	l.pace.count(now)
	l.pace.spreadOut(left, l.underWay, now)
	if d := untilReset(left); d > 0 && isNew {
		l.pause(d, true, now)
	}
}

// refused begins a pause after a refusal, or makes it longer. limit says that a
// limit was the reason. after is how long the service asks to wait; 0: it does
// not say.
func (l *lane) refused(c *call, after time.Duration, limit bool, now time.Time) {
	isNew := l.answered(c, now)
	if isNew {
		l.refusals++
	}
	switch {
	case after > 0:
		l.pause(after, isNew && limit, now)
	case isNew:
		l.pause(backoff(firstBackoff, lastBackoff, l.refusals), limit, now)
	}
}

// pause has no call sent for about d, and then one alone. It is a little longer
// by chance: clients that were told the same don't come back together.
func (l *lane) pause(d time.Duration, measure bool, now time.Time) {
	d = min(d, longestPause)
	d += rand.N(max(1, min(d/10, time.Second)))
	if !l.pausedUntil.After(now) {
		l.pauses++
		l.underWay, l.window = 0, 1
	}
	if until := now.Add(d); until.After(l.pausedUntil) {
		l.pausedUntil = until
	}
	if measure {
		l.pace.refused(d, now)
	}
}

// backoff returns how long to wait after the nth failure in a row, from 1: half
// of it is by chance. The whole is first, doubles with each failure, and is at
// most last.
func backoff(first, last time.Duration, n int) time.Duration {
	d := min(first<<min(n-1, 16), last)
	return d/2 + rand.N(d/2)
}

// wakeFirst has the first call look whether it can go.
func (l *lane) wakeFirst() {
	if len(l.queue) > 0 {
		select {
		case l.queue[0].wake <- struct{}{}:
		default: // it will look anyway
		}
	}
}

// leaveQueue takes a call out.
func (l *lane) leaveQueue(c *call) {
	i := slices.Index(l.queue, c)
	l.queue = slices.Delete(l.queue, i, i+1)
	l.wakeFirst()
}

// laneID is the key of a lane, and what the service calls the limit; "": it has
// not said.
type laneID struct{ key, name string }

// maxLanes is how many lanes a Transport remembers. Lanes in use are remembered
// beyond it.
const maxLanes = 10_000

// lanes are the lanes of a Transport.
type lanes struct {
	window int // of a new lane

	mu    sync.Mutex // guards all below, and each lane; not held during I/O
	byID  map[laneID]*lane
	names map[laneID]string // of a key and the start of a path: the limit that an answer named last
}

// join returns a lane for a call. If there are too many lanes, those without
// calls are forgotten.
func (s *lanes) join(id laneID) *lane {
	l := s.byID[id]
	if l == nil {
		if len(s.byID) >= maxLanes {
			maps.DeleteFunc(s.byID, func(_ laneID, l *lane) bool { return l.calls == 0 })
		}
		if s.byID == nil {
			s.byID, s.names = make(map[laneID]*lane), make(map[laneID]string)
		}
		l = &lane{laneID: id, window: s.window}
		s.byID[id] = l
	}
	l.calls++
	return l
}

// pauseOthers has the other lanes of a lane's key pause as long as it does, also
// that of limits whose names are not known yet.
func (s *lanes) pauseOthers(paused *lane, now time.Time) {
	s.join(laneID{key: paused.key}).calls--
	for id, l := range s.byID {
		if id.key == paused.key && l != paused && l.pausedUntil.Before(paused.pausedUntil) {
			l.pause(paused.pausedUntil.Sub(now), false, now)
			l.wakeFirst()
		}
	}
}

// nameOf returns which limit counts requests of a key with a path, by the answers
// to those whose path begins alike; "": it is not known.
func (s *lanes) nameOf(key, path string) string {
	for len(s.names) > 0 && path != "" {
		if name, ok := s.names[laneID{key, path}]; ok {
			return name
		}
		path = parent(path)
	}
	return ""
}

// remember notes which limit counts requests of a key with a path.
func (s *lanes) remember(key, path, name string) {
	if len(s.names) >= maxLanes {
		clear(s.names)
	}
	s.names[laneID{key, path}] = name
	for path = parent(path); path != ""; path = parent(path) {
		if _, ok := s.names[laneID{key, path}]; !ok {
			s.names[laneID{key, path}] = name
		}
	}
}

// parent returns a path without its last part.
func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }
