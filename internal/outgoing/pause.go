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
// is a probe: others wait for its answer.
type pause struct {
	until    time.Time
	number   int // of pauses that refusals began, so far
	refusals int // in a row, of requests that were sent after the pause before

	probing bool      // no answer has come since the last pause, or of a new key at all
	probe   *Turn     // that is under way; nil: none
	asked   time.Time // when the probe was sent
}

// left returns how long requests have to wait at an instant, for the end of the
// pause or for the answer to the probe.
func (p *pause) left(now time.Time) time.Duration {
	if left := p.until.Sub(now); left > 0 {
		return left
	}
	if p.probing && p.probe != nil {
		return max(0, p.asked.Add(probeFor).Sub(now))
	}
	return 0
}

// sent notes that a request is sent. The first after a pause is the probe.
func (p *pause) sent(t *Turn, now time.Time) {
	t.pauses = p.number
	if p.probing {
		p.probe, p.asked = t, now
	}
}

// end notes that a request has been answered, or has failed.
func (p *pause) end(t *Turn) {
	if p.probe == t {
		p.probe = nil
	}
}

// served notes an answer that was no refusal.
func (p *pause) served() { p.refusals, p.probing = 0, false }

// refused begins a pause. The server said how long; 0: it did not. It reports
// whether the refusal is a new one: those of requests that were sent before the
// pause began can only make it longer.
func (p *pause) refused(t *Turn, said time.Duration, now time.Time) (isNew bool) {
	if isNew = t.pauses == p.number; isNew {
		p.refusals++
		p.number++
	}
	switch {
	case said > 0:
		p.begin(now.Add(t.gate.apart(min(said, longestPause))))
	case isNew:
		p.begin(now.Add(t.gate.Backoff(firstBackoff, lastBackoff, p.refusals)))
	}
	return isNew
}

// begin has no request sent until an instant. It never makes a pause shorter.
func (p *pause) begin(until time.Time) {
	if limit := time.Now().Add(longestPause); until.After(limit) {
		until = limit
	}
	if p.probing = true; until.After(p.until) {
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
