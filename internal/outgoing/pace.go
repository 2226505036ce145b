package outgoing

import (
	"fmt"
	"math"
	"os"
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
// The other rate is learned (AIMD). A refusal says what the server sustains,
// because its bucket was empty at this refusal and at the one before: ceiling =
// requests served between the two / time between them. The refusal halves the
// rate. Each of n requests served since raises it by an eighth of what is
// missing, and after t seconds it rises beyond, to find out whether more is
// possible:
//
//	ceiling × (1 − ½ × (7/8)ⁿ + (t/T)³)
//
// T is 30, and 3 after the first refusal, before which the server's bucket may
// have been full.
//
// If the answers say what is left of a limit, though not exactly when it is
// reset, the rate follows that too. It is multiplied by min(1, (2 × left + 1) /
// limit), and the ceiling rises by a sixteenth with each request served while
// more than half is left and requests wait. So the server is never asked for
// more than it has.
type pace struct {
	tokens float64   // in hand at an instant
	at     time.Time // that instant

	window      float64 // requests per second
	windowBurst float64
	windowEnd   time.Time // zero: there is no window
	renewed     bool      // the window is over; its rate counts on until an answer comes, but not for long

	ceiling float64 // requests per second; 0: not known
	guided  bool    // the ceiling comes from what was left, and not from a refusal
	fill    float64 // the factor of left and limit; 1: not known
	scale   float64 // in seconds: T
	guess   bool
	most    float64
	paused  float64
	served  int       // requests served since the last refusal
	since   time.Time // of the last refusal, or of the first request
}

// resolution is how long a reset is at least, if whole seconds can tell it:
// dates are up to a second late.
const resolution = 2 * time.Second

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

// learned returns the rate that was learned; +Inf: none.
func (p *pace) learned(now time.Time) float64 {
	if p.ceiling == 0 {
		return math.Inf(1)
	}
	return (p.ceiling + P.unit*math.Pow(p.ceiling, P.exp)*math.Pow(max(0, now.Sub(p.since).Seconds()-p.paused*(1-P.inp))/p.scale, P.pow)) * p.fill
}

// burst returns how many requests may go at once: a tenth of what is left of
// the window, and of a second's.
func (p *pace) burst(now time.Time) float64 {
	burst := p.learned(now) / 10
	if !p.guided && p.ceiling > 0 {
		burst = p.most * 0.9
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
		p.tokens = min(burst, p.tokens+rate*max(0, now.Sub(p.at).Seconds()))
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

// refused notes a refusal. The pause after it is not the pace's.
func (p *pace) refused(pause time.Duration, now time.Time) {
	p.refill(now)
	if p.ceiling == 0 && p.served == 0 { // that tells of no rate
		p.since = now
		return
	}
	n, before := max(1, float64(p.served)), p.learned(now)
	active := now.Sub(p.since).Seconds() - p.paused // the pause before
	if p.ceiling == 0 {
		p.ceiling, p.scale, p.most, p.guess = n/max(P.min, active), P.T, n, true
	} else {
		p.scale = P.T
		measured := max((n-p.most)/max(active, p.paused), n/(active+p.paused))
		least := P.cl*p.ceiling + P.clb*before
		if before > 1.5*p.ceiling || p.guess {
			p.scale = P.T1
		}
		if p.guess {
			least, p.guess = 0, false
		}
		p.most = max(1, min(p.most, n-measured*active))
		p.ceiling = min(max(P.beta*measured, least), before)
	}
	p.guided, p.fill, p.served, p.since = false, 1, 0, now
	p.tokens, p.paused = 0, pause.Seconds()
}

// heard notes an answer that was no refusal, while so many requests are under
// way. Of other units than requests only those count that the request takes.
func (p *pace) heard(quotas []advice.Quota, units map[string]int64, underWay int, now time.Time) {
	p.refill(now)
	p.served++
	p.windowEnd, p.fill = time.Time{}, 1
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
		}
	}
	switch {
	case math.IsInf(start, 1):
		if p.guided {
			p.ceiling, p.guided = 0, false
		}
	case p.ceiling == 0:
		p.ceiling, p.guided, p.scale = start, true, 30
	case p.fill == 1 && p.tokens < p.burst(now):
		p.ceiling += p.ceiling / 16
	}
	switch over := now.Sub(p.since); {
	case p.guided:
		p.since = now
	case p.ceiling == 0 && over > 2*time.Second:
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

var P = func() (p struct{ unit, exp, T1, T, beta, pow, min, cl, clb, inp float64 }) {
	p.unit, p.exp, p.T1, p.T, p.beta, p.pow, p.min, p.cl, p.clb, p.inp = 1, 1, 3, 30, 1, 3, .1, .7, 0, 0
	fmt.Sscanf(os.Getenv("PP"), "%g,%g,%g,%g,%g,%g,%g,%g,%g,%g", &p.unit, &p.exp, &p.T1, &p.T, &p.beta, &p.pow, &p.min, &p.cl, &p.clb, &p.inp)
	return p
}()
