package circuit

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

type Status int // of a decision

const (
	// Answered decisions were made by the store.
	Answered Status = iota
	// Waited decisions were queued for too long, and not sent, while the store
	// answered others.
	Waited
	// Unanswered decisions had no answer in time, or no connection, or lost it.
	Unanswered
	// Refused decisions were answered with an error.
	Refused

	statuses // how many there are
)

const (
	// second is how long decisions are counted together.
	second = time.Second
	// minSeconds: a share of failed decisions is logged if there is one in so
	// many seconds in a row. So a single lost call is not.
	minSeconds = 2
	// minShare: if fewer than one in so many decisions fails, it is not logged.
	minShare = 100
	// logInterval is the least time between two logged shares.
	logInterval = time.Minute
)

// outage logs when OnFailure decides instead of a server: that the breaker
// opened, or while it is closed, what share of decisions failed. It logs the
// end after the first second in which the server made all decisions. A timer
// ends each second, so the end is logged even if no more decisions come.
//
// Example: from 0 to 3.5 s the server answers only 90 of 100 decisions a
// second. At 2 s the share is logged, 10 %, and at 5 s that the server is back.
type outage struct {
	group  *Group
	server func() string
	logger func() *slog.Logger
	open   *atomic.Bool // of the Breaker

	counts         atomic.Bool   // decisions are counted: from the first failure to the end
	mu             sync.Mutex    // guards all below
	since          time.Time     // when the current second began
	n              [statuses]int // decisions in it
	timer          *time.Timer   // ends the second; nil until it is first needed
	err            error         // of the last that failed
	failingSeconds int           // in how many seconds in a row a share failed
	logged         bool          // the opening or a share was logged, and the end not yet
	opened         bool          // the opening was logged, and the end not yet
	shareLogged    time.Time     // when a share was last logged
}

// note counts n decisions, which failed with err unless it is nil. While
// nothing fails, a call costs one atomic load.
func (o *outage) note(n int, status Status, err error) {
	if n == 0 || status == Answered && !o.counts.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	o.endSecond(now) // the timer may be late
	if status == Answered && !o.counts.Load() {
		return // that was the end
	}
	o.counts.Store(true)
	if o.n == ([statuses]int{}) {
		o.beginSecond(now)
	}
	if o.n[status] += n; err != nil {
		o.err = err
	}
}

// beginSecond has the timer end the second that begins now. mu is held.
func (o *outage) beginSecond(now time.Time) {
	o.since = now
	if o.timer != nil {
		o.timer.Reset(second)
		return
	}
	o.timer = time.AfterFunc(second, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.endSecond(time.Now())
	})
}

// endSecond logs the share of the current second, or the end, if there were
// decisions and the second is over. mu is held.
func (o *outage) endSecond(now time.Time) {
	if now.Sub(o.since) < second {
		return
	}
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
		if o.failingSeconds++; o.failingSeconds >= minSeconds && o.n[Answered] > 0 && now.Sub(o.shareLogged) > logInterval {
			o.logged, o.shareLogged = true, now
			o.log().Warn("ratelimit: "+o.group.Name+" decides only a part; each policy's OnFailure decides the rest", "code", "RL717",
				"fallback_percent", 100*failed/all, "waited_to_be_sent", o.n[Waited], "no_answer", o.n[Unanswered],
				"refused", o.n[Refused], "error", o.err)
		}
	}
	o.n = [statuses]int{}
}

// breakerOpened logs that the breaker opened, once in an outage.
func (o *outage) breakerOpened(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.opened {
		return
	}
	o.counts.Store(true)
	o.logged, o.opened = true, true
	o.log().Warn("ratelimit: "+o.group.Describe(err)+"; each policy's OnFailure decides until it is back", "code", "RL712", "error", err)
}

// unused logs the end because no more calls go to the server, most likely
// because others have its keys.
func (o *outage) unused() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.logged {
		o.log().Warn("ratelimit: no decision needs the server that did not answer: others may have its keys", "code", "RL713")
	}
	o.logged, o.opened = false, false
}

func (o *outage) log() *slog.Logger {
	server := o.server()
	if server == "" {
		return o.logger()
	}
	return o.logger().With("server", server)
}
