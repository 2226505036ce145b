package outgoing

import (
	"container/list"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// lane is what a client knows of one key.
type lane struct {
	key  string
	uses int           // calls that wait or are under way; guarded by lanes.mu
	idle *list.Element // in lanes.idle, while there are none

	mu       sync.Mutex // guards all below; not held during I/O
	seq      uint64
	queue    queue
	pause    pause
	pace     pace
	underWay int       // requests that were sent and not answered
	checked  time.Time // when the shared pause was last looked up

	notBefore time.Time     // the limiter has no tokens earlier
	spacing   time.Duration // between two requests, as the limiter's denial had it; 0: not known
	slotted   bool          // the limiter has slots, which can't be reserved
	refusedAt time.Time     // of the last refusal
}

// left returns how long the first has to wait at an instant, and for what.
func (l *lane) left(now time.Time) (time.Duration, Reason) {
	if l.pace.expired(now) {
		l.pause.served = 0 // the next request goes first, as that of a new key
	}
	wait, reason := l.pause.left(now), ForPause
	if d := l.notBefore.Sub(now); d > wait {
		wait, reason = d, ForLimit
	}
	if d := l.pace.left(now); d > wait {
		wait, reason = d, ForPace
	}
	return wait, reason
}

// expected returns the least time that a new request of a priority has to wait,
// and for what.
func (l *lane) expected(p Priority, now time.Time) (time.Duration, Reason) {
	wait, reason := l.left(now)
	ahead := float64(l.queue.ahead(p))
	if ahead == 0 {
		return wait, reason
	}
	more := time.Duration(0)
	if rate, burst := l.pace.outlook(now), l.pace.burst(now); rate > 0 && ahead > burst {
		more = time.Duration(min((ahead-burst)/rate, longestPause.Seconds()) * float64(time.Second))
	}
	if !l.pause.until.After(now) { // after a pause the limiter may have tokens for all
		more = max(more, time.Duration(min((ahead-1)*float64(l.spacing), float64(longestPause))))
	}
	if more > 0 {
		return wait + more, ForTurn
	}
	return wait, reason
}

// send notes that t is sent, or is about to be.
func (l *lane) send(t *Turn, now time.Time) {
	l.underWay++
	l.pace.take(1, now)
	l.pause.sent(t, now)
}

// unsend takes send back: t was not sent.
func (l *lane) unsend(t *Turn, now time.Time) {
	l.underWay--
	l.pace.take(-1, now)
	l.pause.end(t, now)
	l.queue.wakeFirst()
}

// refused slows the pace down after a refusal. With a limiter, one now and then
// is an accident of times, and the pause is enough.
func (l *lane) refused(limited bool, now time.Time) {
	if !limited || now.Sub(l.refusedAt) < accident {
		l.pace.refused(l.pause.until.Sub(now), now)
	}
	l.refusedAt = now
}

// accident is the least time between refusals that say nothing of the pace.
const accident = 10 * time.Second

// deny notes that the limiter has denied a request.
func (l *lane) deny(res *core.Result, wait time.Duration, now time.Time) {
	l.notBefore = now.Add(wait)
	l.spacing = 0
	for _, r := range res.Limits() {
		if r.Violated && r.Limit.Mode == core.Continuous && r.Cost > 0 && r.Limit.RefillRate > 0 {
			l.spacing = max(l.spacing, time.Duration(float64(r.Limit.RefillInterval)/float64(r.Limit.RefillRate)*float64(r.Cost)))
		}
	}
}

// maxLanes is how many keys a client remembers. Keys that requests use are
// remembered beyond it.
const maxLanes = 10_000

// lanes are the lanes of a client, by key.
type lanes struct {
	ramps bool // nothing is known of a new key

	mu    sync.Mutex // guards all below, and uses and idle of each lane
	byKey map[string]*lane
	idle  list.List // of lanes without calls; the one that was used last is at the back
}

// enter returns the lane of a key, for a call. The call leaves it in the end.
func (s *lanes) enter(key string) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	switch {
	case l == nil:
		if s.byKey == nil {
			s.byKey = make(map[string]*lane)
		}
		l = &lane{key: key}
		l.pause.ramps = s.ramps
		s.byKey[key] = l
		s.forget()
	case l.uses == 0:
		s.idle.Remove(l.idle)
	}
	l.uses++
	return l
}

// leave ends the use of a lane by a call.
func (s *lanes) leave(l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.uses--; l.uses == 0 {
		l.idle = s.idle.PushBack(l)
		s.forget()
	}
}

// forget forgets idle lanes, from the one that was used longest ago, until no
// more than maxLanes are left.
func (s *lanes) forget() {
	for oldest := s.idle.Front(); oldest != nil && len(s.byKey) > maxLanes; oldest = s.idle.Front() {
		delete(s.byKey, s.idle.Remove(oldest).(*lane).key)
	}
}

// look returns the lane of a key, or nil.
func (s *lanes) look(key string) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKey[key]
}
