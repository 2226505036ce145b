package outgoing

import (
	"math"
	"time"

	"github.com/tokenbucket-go/ratelimit/internal/advice"
)

// pace is how fast requests of a key may follow each other: a token bucket
// whose rate comes from the server's answers. It is the smaller of two rates.
// Neither is known at first, and then there is no bound.
//
// The window's rate spreads what is left until it is reset:
//
//	(left − requests under way − tokens in hand) / time until the reset
//
// It does not count for resets within two seconds that were said in whole
// seconds, which can't tell a shorter time.
//
// The other rate is learned (AIMD). A refusal says that the server's bucket is
// empty now, as it was at the refusal before. So of n requests served since,
// over a time of which a pause was a part, the server's bucket had saved some in
// the pause, of most at most, and sustained the others:
//
//	ceiling = max(n / time, (n − most) / max(pause, time − pause))
//	most = min(most, n)
//
// A refusal lowers the ceiling by no more than a fifth, and never makes the rate
// higher than it was. Nine tenths of what the pause has saved may go at once after
// it. After t more seconds the rate is, to find out whether more is possible,
//
//	ceiling + √ceiling × (t/12)³
//
// in requests per second. Of clients that share a limit the slow ones rise
// faster, in proportion, so their rates come together. Below one a second t
// counts requests instead.
//
// The first refusal tells less, because the server's bucket may have been full
// before. The ceiling is then the rate of late, and most is all that was served.
//
// If the answers say what is left of a limit, though not exactly when it is
// reset, the rate follows that too. It is multiplied by min(1, (2 × left + 1) /
// limit), but is not less than the limit an hour, or one in two seconds if that
// is slower. With each request served the ceiling rises by a sixteenth of what
// is left, while that is more than half and requests wait. Below a third it
// falls by 1/64 of itself. So the server is hardly ever asked for more than it
// has, and the ceilings of clients that share a limit come together. A refusal
// halves the rate.
//
// Answers without such fields change neither rate, until they are [silence] in a
// row: a service may leave them out of errors, or of some paths.
type pace struct {
	tokens float64   // in hand at an instant
	at     time.Time // that instant

	window      float64 // requests per second
	windowBurst float64
	windowEnd   time.Time // zero: there is no window
	renewed     bool      // the window is over; its rate counts on until an answer comes, but not for long

	ceiling float64       // requests per second; 0: not known
	guided  bool          // the ceiling comes from what was left, and not from refusals
	guessed bool          // it comes from one refusal alone
	most    float64       // requests that the server's bucket can save in a pause
	fill    float64       // the factor of left and limit; 1: not known; 0: no answer was heard
	least   float64       // requests per second, whatever fill is
	silent  int           // answers in a row that said nothing of what is left
	served  int           // requests served since
	since   time.Time     // the last refusal, or the first request
	paused  time.Duration // after that refusal
}

// lately is how far back counts what was served before a first refusal.
const lately = 2 * time.Second

// resolution is how long a reset is at least, if whole seconds can tell it:
// dates are up to a second late.
const resolution = 2 * time.Second

// silence is after how many answers that say nothing of what is left a service
// has no such fields.
const silence = 16

// rate returns how many requests per second may go at an instant; +Inf: as many
// as come.
func (p *pace) rate(now time.Time) float64 {
	if p.windowed(now) {
		return min(p.window, p.learned(now))
	}
	return p.learned(now)
}

// windowed reports whether the window's rate counts at an instant.
func (p *pace) windowed(now time.Time) bool {
	return !p.windowEnd.IsZero() && now.Before(p.windowEnd.Add(probeFor))
}

// expired reports whether a window is over, and no answer tells of the next one.
// It does so once.
func (p *pace) expired(now time.Time) bool {
	if p.windowEnd.IsZero() || p.windowed(now) {
		return false
	}
	p.windowEnd = time.Time{}
	return true
}

// learned returns the rate that was learned; +Inf: none.
func (p *pace) learned(now time.Time) float64 {
	if p.ceiling == 0 {
		return math.Inf(1)
	}
	rate := p.ceiling
	if !p.guided {
		slow := min(1, p.ceiling)
		t := max(0, now.Sub(p.since)-p.paused).Seconds() * slow
		rate += math.Sqrt(p.ceiling*slow) * math.Pow(t/12, 3)
	}
	return max(rate*p.fill, min(rate, p.least))
}

// outlook returns how many requests per second may go after those that go at
// once; +Inf: that is not known. A rate that follows what is left rises while
// that is more than half, and what is left now does not matter after the reset.
func (p *pace) outlook(now time.Time) float64 {
	rate := p.learned(now)
	switch {
	case p.guided && p.fill == 1:
		rate = math.Inf(1)
	case p.guided:
		rate = p.ceiling
	}
	if p.windowed(now) {
		rate = min(rate, p.window)
	}
	return rate
}

// burst returns how many requests may go at once: what a pause has saved, or a
// tenth of what is left of the window, and of a second's.
func (p *pace) burst(now time.Time) float64 {
	burst := p.learned(now) / 10 * p.fill
	if !p.guided && p.ceiling > 0 {
		burst = 0.9 * min(p.most, p.ceiling*p.paused.Seconds())
	}
	if p.windowed(now) {
		burst = min(burst, p.windowBurst)
	}
	return max(1, burst)
}

// refill brings the tokens up to date. When the window is over, one request may
// go to learn what is left of the next one.
func (p *pace) refill(now time.Time) {
	rate, burst := p.rate(now), p.burst(now)
	if math.IsInf(rate, 1) {
		p.tokens = math.Inf(1)
	} else {
		p.tokens += rate * max(0, now.Sub(p.at).Seconds())
		if over := p.tokens - burst; over > 0 {
			p.tokens = burst
			if p.at.Sub(p.since) > p.paused { // nobody asks for as much
				p.since = p.since.Add(time.Duration(over / rate * 1e9))
			}
		}
	}
	if p.windowed(now) && !p.renewed && !now.Before(p.windowEnd) {
		p.renewed, p.tokens = true, max(1, p.tokens)
	}
	p.at = now
}

// left returns how long the next request has to wait at an instant.
func (p *pace) left(now time.Time) time.Duration {
	p.refill(now)
	if p.tokens >= 1 {
		return 0
	}
	wait := longestPause.Seconds()
	if rate := p.rate(now); rate > 0 {
		wait = min(wait, (1-p.tokens)/rate)
	}
	d := time.Duration(math.Ceil(wait * 1e9))
	switch { // then more is there
	case p.windowed(now) && p.renewed:
		d = min(d, p.windowEnd.Add(probeFor).Sub(now))
	case p.windowed(now):
		d = min(d, p.windowEnd.Sub(now))
	}
	return d
}

// take takes n tokens for a request that is sent; with -n it gives them back.
func (p *pace) take(n float64, now time.Time) {
	p.refill(now)
	if p.tokens -= n; p.since.IsZero() {
		p.since = now
	}
}

// refused notes a refusal, and the pause after it. If nothing was served since
// the one before, it says nothing new.
func (p *pace) refused(pause time.Duration, now time.Time) {
	p.refill(now)
	if n := float64(p.served); n > 0 {
		before, paused := p.learned(now), p.paused.Seconds()
		active := max(0, now.Sub(p.since).Seconds()-paused)
		switch {
		case p.guided:
			p.ceiling = max(1, p.ceiling/2)
		case p.ceiling == 0:
			p.ceiling, p.guessed, p.most = n/max(0.2, active), true, n
		default:
			measured := max(n/max(1e-3, active+paused), (n-p.most)/max(active, paused, 1e-3))
			if !p.guessed {
				measured = max(measured, 0.8*p.ceiling)
			}
			p.ceiling, p.guessed, p.most = min(measured, before), false, min(p.most, n)
		}
	}
	p.served, p.since, p.paused, p.tokens = 0, now, pause, 0
}

// heard notes an answer that was no refusal, while so many requests are under
// way. Of other units than requests only those count that the request takes.
func (p *pace) heard(quotas []advice.Quota, units map[string]int64, underWay int, now time.Time) {
	p.refill(now)
	p.served++
	if p.silent++; len(quotas) > 0 {
		p.silent = 0
	}
	replaces := p.silent == 0 || p.silent > silence || p.fill == 0 // what was said before
	if replaces {
		p.windowEnd, p.fill, p.least = time.Time{}, 1, 1/resolution.Seconds()
	}
	start := math.Inf(1) // the first ceiling, if no refusal says better
	for _, q := range quotas {
		size := float64(units[q.Unit]) // of a request
		if q.Unit == advice.Requests {
			size = 1
		}
		if size == 0 && q.Left > 0 || q.Reset == 0 {
			continue
		}
		size = max(1, size)
		left, limit := float64(q.Left)/size, float64(q.Limit)/size
		switch {
		case q.Reset > resolution || !q.Whole:
			p.spread(left, underWay, q.Reset, now)
		case limit > 0:
			p.fill = min(p.fill, (2*left+1)/limit)
			start = min(start, max(1, left))
			p.least = min(p.least, limit/longestPause.Seconds())
		}
	}
	switch {
	case math.IsInf(start, 1):
		if p.guided && replaces {
			p.ceiling, p.guided = 0, false
		}
	case p.ceiling == 0:
		p.ceiling, p.guided = start, true
	case p.fill < 2.0/3:
		p.ceiling = max(1, p.ceiling-p.ceiling/64)
	case p.fill == 1 && p.tokens < p.burst(now):
		p.ceiling += start / 16
	}
	if over := now.Sub(p.since); (p.guided || p.ceiling == 0) && over > lately {
		p.served, p.since = p.served/2, p.since.Add(over/2)
	}
	p.tokens = min(p.tokens, p.burst(now))
}

// spread takes in a window in which so many requests are left until a reset. Of
// several the slowest counts.
func (p *pace) spread(left float64, underWay int, reset time.Duration, now time.Time) {
	hand := p.tokens
	if math.IsInf(hand, 1) {
		hand = max(1, left/10)
	}
	rate := max(0, left-float64(underWay)-max(0, hand)) / reset.Seconds()
	if p.windowEnd.IsZero() || rate < p.window {
		p.window, p.windowBurst = rate, left/10
		p.windowEnd, p.renewed = now.Add(min(reset, longestPause)), false
	}
}
