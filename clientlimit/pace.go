package clientlimit

import (
	"math"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit/internal/advice"
	"github.com/tokenbucket-go/ratelimit/core"
)

// pace is how fast the calls of a lane may follow each other: a token bucket
// whose rate comes from the answers. At first there is no bound.
//
// If an answer says what is left until a reset, that is spread over the time
// until then, and a tenth of it may go at once:
//
//	rate = (left − calls under way − tokens) / time until the reset
//
// Otherwise the rate is measured at each refusal. The service's bucket is empty
// then, as it was at the refusal before. So it sustains what it has served in
// between:
//
//	base = min(rate, served / time since the refusal before)
//
// From there the rate rises, to find out whether more is possible: slowly at
// first, and to twice as much in 20 seconds:
//
//	rate = base × (1 + (t / 20 s)³)
type pace struct {
	tokens float64 // in hand at an instant
	at     time.Time

	spread      float64   // calls per second, until an instant
	spreadBurst float64   // calls that may go at once
	spreadUntil time.Time // zero: nothing is spread

	base   float64       // calls per second; 0: not measured
	served int           // calls since the last refusal
	since  time.Time     // that refusal, later by the time in which fewer calls came than could go
	paused time.Duration // after it
}

const (
	// resolution is how long a reset is at least that whole seconds can tell.
	// Shorter ones don't bound the rate: 5 left and a second until the reset
	// can be 5 a second, or 50 a second with bursts of 5.
	resolution = 2 * time.Second
	// doubles is the time in which the rate rises to twice the base.
	doubles = 20 * time.Second
	// slowest is the least rate that is measured, in calls per second. Slower
	// services are left to pauses: a rate that is too low would take too long to
	// rise.
	slowest = 0.1
	// lately is how far back counts what was served, before a rate is measured.
	lately = 2 * time.Second
)

// limits returns the rate in calls per second, and how many may go at once;
// +Inf: there is no bound.
func (p *pace) limits(now time.Time) (rate, burst float64) {
	rate, burst = math.Inf(1), math.Inf(1)
	if now.Before(p.spreadUntil) {
		rate, burst = p.spread, p.spreadBurst
	}
	if p.base > 0 {
		t := max(0, now.Sub(p.since)-p.paused).Seconds() / doubles.Seconds()
		rate, burst = min(rate, p.base*(1+t*t*t)), min(burst, max(1, p.base/10))
	}
	return rate, burst
}

// refill brings the tokens up to date.
func (p *pace) refill(now time.Time) {
	rate, burst := p.limits(now)
	passed := max(0, now.Sub(p.at).Seconds())
	if p.at.Before(now) {
		p.at = now
	}
	if math.IsInf(rate, 1) {
		p.tokens = burst
		return
	}
	p.tokens += rate * passed
	if over := p.tokens - burst; over > 0 {
		p.tokens = burst
		if rate > 0 {
			p.since = p.since.Add(time.Duration(min(passed, over/rate) * float64(time.Second)))
		}
	}
}

// wait returns how long the next call has to wait.
func (p *pace) wait(now time.Time) time.Duration {
	p.refill(now)
	if p.tokens >= 1 {
		return 0
	}
	return max(p.behind(0, now), p.at.Sub(now))
}

// behind returns how long it takes until there are tokens for more calls than
// ahead.
func (p *pace) behind(ahead float64, now time.Time) time.Duration {
	rate, _ := p.limits(now)
	lacks := ahead + 1 - p.tokens
	if lacks <= 0 {
		return 0
	}
	wait := longestPause
	if rate > 0 {
		wait = seconds(lacks / rate)
	}
	if now.Before(p.spreadUntil) { // then more is left
		wait = min(wait, p.spreadUntil.Sub(now))
	}
	return wait
}

// renewed reports, once, that the time is over for which the calls were spread.
func (p *pace) renewed(now time.Time) bool {
	over := !p.spreadUntil.IsZero() && !now.Before(p.spreadUntil)
	if over {
		p.spreadUntil = time.Time{}
	}
	return over
}

// count notes that a call was served.
func (p *pace) count(now time.Time) {
	p.refill(now)
	if p.since.IsZero() {
		p.since = now
	}
	p.served++
	if over := now.Sub(p.since); p.base == 0 && over > lately {
		p.served, p.since = p.served/2, p.since.Add(over/2)
	}
}

// refused measures the rate at a refusal after which the lane pauses.
func (p *pace) refused(pause time.Duration, now time.Time) {
	p.refill(now)
	if p.served == 0 { // nothing new: the time since the refusal before counts on
		p.paused += pause
	} else {
		rate, _ := p.limits(now)
		p.base = max(slowest, min(rate, float64(p.served)/max(pause, now.Sub(p.since)).Seconds()))
		p.served, p.since, p.paused = 0, now, pause
	}
	p.tokens, p.at = 0, now.Add(pause)
}

// spreadOut spreads what is left over the time until it is reset, while so many
// calls are under way. Of several limits the slowest counts.
func (p *pace) spreadOut(left []stock, underWay int, now time.Time) {
	p.refill(now)
	hand, replaced := p.tokens, false
	for _, s := range left {
		if s.calls < 1 || s.whole && s.reset <= resolution {
			continue
		}
		burst := max(1, s.calls/10)
		rate := max(0, s.calls-float64(underWay)-min(hand, burst)) / s.reset.Seconds()
		if !replaced || rate < p.spread {
			p.spread, p.spreadBurst, p.spreadUntil = rate, burst, now.Add(min(s.reset, longestPause))
			p.tokens, replaced = min(hand, burst), true
		}
	}
	if replaced {
		p.base = 0
	}
}

// stock is what a service has left of one limit.
type stock struct {
	calls float64       // for which it is enough
	reset time.Duration // until there is more: more than 0
	whole bool          // reset was said in whole seconds
}

// stocks returns what is left for calls that take units. Of other units than
// requests only those count that a call takes, or of which nothing is left.
func stocks(quotas []advice.Quota, units core.Units) (left []stock) {
	for _, q := range quotas {
		size := units[q.Unit]
		if q.Unit == advice.Requests {
			size = 1
		}
		if q.Reset > 0 && (size > 0 || q.Left == 0) {
			left = append(left, stock{float64(q.Left / max(1, size)), q.Reset, q.Whole})
		}
	}
	return left
}

// untilReset returns after which time a limit is reset of which nothing is left,
// or 0.
func untilReset(left []stock) (longest time.Duration) {
	for _, s := range left {
		if s.calls < 1 {
			reset := s.reset
			if s.whole && reset <= resolution {
				reset /= 2
			}
			longest = max(longest, reset)
		}
	}
	return longest
}

// seconds returns a time, rounded up, of at most longestPause.
func seconds(s float64) time.Duration {
	return time.Duration(math.Ceil(min(s, longestPause.Seconds()) * float64(time.Second)))
}
