package breaker

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Fate is what became of a decision.
type Fate int

const (
	// Answered decisions came back.
	Answered Fate = iota
	// Waited decisions waited in this process for so long that they were not sent. Redis answered others meanwhile.
	Waited
	// Unanswered decisions had no answer in time, or their connection broke, or there was none.
	Unanswered
	// Refused decisions had an error of the server for an answer.
	Refused

	fates
)

const (
	// second is for how long decisions are counted together.
	second = time.Second
	// lasting is in how many seconds in a row decisions must fail before their share is logged. A call that is lost now and
	// then would fill the log.
	lasting = 2
	// worthIt is the least share of failed decisions that is logged, as 1 in so many.
	worthIt = 100
	// quiet is for how long shares are not logged after one was.
	quiet = time.Minute
)

// outage logs that a server leaves decisions to OnFailure: all of them when the breaker opens, or a share of them, with
// its causes. It logs the end when all decisions have come back for a second.
type outage struct {
	server string
	logger func() *slog.Logger
	open   *atomic.Bool // the breaker is

	counts atomic.Bool // decisions: one has failed. Most of the time none has
	mu     sync.Mutex  // guards all below
	since  time.Time   // when the second began
	n      [fates]int  // decisions in it
	err    error       // the last
	bad    int         // seconds in a row in which a share failed
	logged bool        // that it began, and not that it ended
	opened bool        // the same, by the breaker
	share  time.Time   // when a share was last logged
}

// note counts n decisions.
func (o *outage) note(n int, fate Fate, err error) {
	if n == 0 || fate == Answered && !o.counts.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); !o.counts.Swap(true) {
		o.since = now
	} else if now.Sub(o.since) >= second {
		o.turn(now)
	}
	if o.n[fate] += n; err != nil {
		o.err = err
	}
}

// turn ends a second and begins the next. mu is held.
func (o *outage) turn(now time.Time) {
	failed := o.n[Waited] + o.n[Unanswered] + o.n[Refused]
	all := failed + o.n[Answered]
	switch {
	case all == 0:
	case o.open.Load(), failed > 0 && failed*worthIt < all:
		o.bad = 0
	case failed == 0:
		o.counts.Store(false)
		if o.bad = 0; o.logged {
			o.log().Warn("ratelimit: Redis is back", "code", "RL713")
		}
		o.logged, o.opened = false, false
	default:
		if o.bad++; o.bad >= lasting && o.n[Answered] > 0 && now.Sub(o.share) > quiet {
			o.logged, o.share = true, now
			o.log().Warn("ratelimit: Redis decides only a part; each policy's OnFailure decides the rest", "code", "RL717",
				"fallback_percent", 100*failed/all, "waited_to_be_sent", o.n[Waited], "no_answer", o.n[Unanswered],
				"refused", o.n[Refused], "error", o.err)
		}
	}
	o.n, o.since = [fates]int{}, now
}

// began logs that the breaker has opened, once until all decisions come back.
func (o *outage) began(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.opened {
		return
	}
	if !o.counts.Swap(true) {
		o.since = time.Now()
	}
	o.logged, o.opened = true, true
	o.log().Warn("ratelimit: "+Words(err)+"; each policy's OnFailure decides until it is back", "code", "RL712", "error", err)
}

// rest logs that the server has no keys any more, if its outage was logged.
func (o *outage) rest() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.logged {
		o.log().Warn("ratelimit: Redis is back: other servers have the keys of the one that did not answer", "code", "RL713")
	}
	o.logged, o.opened = false, false
}

// log is where lines go, with the server's address if it is known.
func (o *outage) log() *slog.Logger {
	if o.server == "" {
		return o.logger()
	}
	return o.logger().With("server", o.server)
}
