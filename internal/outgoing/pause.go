package outgoing

import "time"

const (
	// longestPause is how long the word of a server counts: then one request
	// asks again.
	longestPause = time.Hour
	// firstBackoff and lastBackoff are pauses after refusals in a row that
	// don't say how long.
	firstBackoff, lastBackoff = time.Second, time.Minute
	// probeFor is how long others wait for the answer to a probe.
	probeFor = time.Second
)

// pause is a time in which no request of a key is sent. The first one after it
// is a probe: others wait for its answer. Before two pauses have told what the
// server sustains, one more may be under way for each rampBy that are served.
type pause struct {
	until    time.Time
	number   int // of pauses so far
	refusals int // in a row, of requests that were sent after the pause before

	ramps    bool      // a pause has begun, or nothing was known of the key at first
	underWay int       // requests that were sent since the last pause
	served   int       // of those
	heard    time.Time // when the last of them was answered, or the first was sent
}

// rampBy is how many requests are served for each that may be under way.
const rampBy = 4

// left returns how long requests have to wait at an instant, for the end of the
// pause or for answers.
func (p *pause) left(now time.Time) time.Duration {
	if left := p.until.Sub(now); left > 0 {
		return left
	}
	if p.ramps && p.underWay > 0 && (p.served == 0 || p.number < 2 && (p.underWay-1)*rampBy >= p.served) {
		return max(0, p.heard.Add(probeFor).Sub(now))
	}
	return 0
}

// sent notes that a request is sent.
func (p *pause) sent(t *Turn, now time.Time) {
	if t.pauses = p.number; p.underWay == 0 {
		p.heard = now
	}
	p.underWay++
}

// probes reports whether a request that was sent is the first after a refusal.
func (p *pause) probes() bool { return p.number > 0 && p.served == 0 && p.underWay == 1 }

// end notes that a request has been answered, or has failed.
func (p *pause) end(t *Turn, now time.Time) {
	if t.pauses == p.number {
		p.underWay--
		p.heard = now
	}
}

// answered notes that t was served.
func (p *pause) answered(t *Turn) {
	if p.refusals = 0; t.pauses == p.number {
		p.served++
	}
}

// refused begins a pause. The server said how long; 0: it did not. It reports
// whether the refusal is a new one: those of requests that were sent before the
// pause began can only make it longer.
func (p *pause) refused(t *Turn, said time.Duration, now time.Time) (isNew bool) {
	if isNew = t.pauses == p.number; isNew {
		p.refusals++
	}
	switch {
	case said > 0:
		p.begin(now.Add(t.gate.apart(min(said, longestPause))), now)
	case isNew:
		p.begin(now.Add(t.gate.Backoff(firstBackoff, lastBackoff, p.refusals)), now)
	}
	return isNew
}

// begin has no request sent until an instant. It never makes a pause shorter.
// Requests that were sent before no longer count.
func (p *pause) begin(until, now time.Time) {
	if p.ramps = true; !p.until.After(now) {
		p.number, p.underWay, p.served = p.number+1, 0, 0
	}
	if limit := now.Add(longestPause); until.After(limit) {
		until = limit
	}
	if until.After(p.until) {
		p.until = until
	}
}

// apart returns a pause that is a little longer than d, by chance: clients that
// were told the same don't come back together.
func (g *Gate) apart(d time.Duration) time.Duration {
	return d + g.config.Jitter(max(1, min(d/10, time.Second)))
}

// Backoff returns how long to wait after the nth failure in a row, from 1: half
// of it is by chance. The whole is first, doubles with each failure, and is at
// most last.
func (g *Gate) Backoff(first, last time.Duration, n int) time.Duration {
	d := min(first<<min(n-1, 16), last)
	return d/2 + g.config.Jitter(d/2)
}
