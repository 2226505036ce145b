package circuit

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Outcome is what became of a decision.
type Outcome int

const (
	// Answered decisions were made by the store.
	Answered Outcome = iota
	// Waited decisions were in the queue for too long and were not sent, while it answered others.
	Waited
	// Unanswered decisions had no answer in time, or their connection broke, or there was none.
	Unanswered
	// Refused decisions were answered with an error.
	Refused

	outcomes
)

const (
	// second is how long decisions are counted together.
	second = time.Second
	// minSeconds is in how many seconds in a row decisions must fail before their share is logged: single lost calls are not.
	minSeconds = 2
	// minShare is of how many decisions at least one must have failed in a second for the second to count as failing.
	minShare = 100
	// logInterval is the least time between two logged shares.
	logInterval = time.Minute
)

// outage logs that OnFailure decides in place of a server: all requests from when the breaker opens, or a share of them while it
// is closed. It logs the end when it has made all decisions of a second.
type outage struct {
	group  *Group
	server string
	logger func() *slog.Logger
	open   *atomic.Bool // whether the breaker is open

	counts         atomic.Bool   // whether decisions are counted: from the first failure to the end of the outage
	mu             sync.Mutex    // guards all below
	since          time.Time     // when the current second began
	n              [outcomes]int // decisions in it
	err            error         // the last one's
	failingSeconds int           // failing seconds in a row
	logged         bool          // an outage or a share was logged, and its end was not
	opened         bool          // it was an outage
	share          time.Time     // when a share was last logged
}

// note counts n decisions. While nothing fails it costs one atomic load.
func (o *outage) note(n int, outcome Outcome, err error) {
	if n == 0 || outcome == Answered && !o.counts.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); !o.counts.Swap(true) {
		o.since = now
	} else if now.Sub(o.since) >= second {
		o.turn(now)
	}
	if o.n[outcome] += n; err != nil {
		o.err = err
	}
}

// turn ends a second, logs what is to be logged of it, and begins the next. mu is held.
func (o *outage) turn(now time.Time) {
	failed := o.n[Waited] + o.n[Unanswered] + o.n[Refused]
	all := failed + o.n[Answered]
	switch {
	case all == 0:
	case o.open.Load(), failed > 0 && failed*minShare < all:
		o.failingSeconds = 0
	case failed == 0:
		o.counts.Store(false)
		if o.failingSeconds = 0; o.logged {
			o.log().Warn("ratelimit: "+o.group.Name+" is back", "code", "RL713")
		}
		o.logged, o.opened = false, false
	default:
		if o.failingSeconds++; o.failingSeconds >= minSeconds && o.n[Answered] > 0 && now.Sub(o.share) > logInterval {
			o.logged, o.share = true, now
			o.log().Warn("ratelimit: "+o.group.Name+" decides only a part; each policy's OnFailure decides the rest", "code", "RL717",
				"fallback_percent", 100*failed/all, "waited_to_be_sent", o.n[Waited], "no_answer", o.n[Unanswered],
				"refused", o.n[Refused], "error", o.err)
		}
	}
	o.n, o.since = [outcomes]int{}, now
}

// began logs that the breaker has opened. It logs once an outage.
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
	o.log().Warn("ratelimit: "+o.group.Describe(err)+"; each policy's OnFailure decides until it is back", "code", "RL712", "error", err)
}

// end logs that the server has no keys any more, if its outage was logged.
func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.logged {
		o.log().Warn("ratelimit: "+o.group.Name+" is back: other servers have the keys of the one that did not answer", "code", "RL713")
	}
	o.logged, o.opened = false, false
}

// log returns the logger, with the server's address if it is known.
func (o *outage) log() *slog.Logger {
	if o.server == "" {
		return o.logger()
	}
	return o.logger().With("server", o.server)
}
