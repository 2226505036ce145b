package definitions

import (
	"math"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Bucket is what the documentation says of a bucket under several definitions,
// in tokens. What a definition leaves to another is rounded, so it is compared
// with a tolerance.
type Bucket struct {
	defs    []core.Limit
	writer  int     // the definition whose rate counts; -1: the bucket is full and was never used
	left    float64 // under writer; below 0: a debt
	cut     float64 // what the Capacity of writer has cut from it
	base    float64 // what left would be if nothing had been taken since the cut
	at      int64   // µs: of the last step that has counted
	written int64   // µs: of the last write
	held    []held  // in the order of their ends
	fuzzy   float64 // how much rounding may have changed left: see lost
	lost    bool    // rounding may have decided whether the bucket is full
}

// held is tokens that are not used yet.
type held struct {
	id      int
	n       int64
	end     int64 // µs: the last instant of the hold
	returns bool  // when the hold ends; else the tokens are used then
	nothing bool  // a reservation that was due at once holds nothing, but can be canceled in the same microsecond
}

// Used is how much is used or held.
func (b *Bucket) Used() float64 {
	if b.writer < 0 {
		return 0
	}
	return float64(b.defs[b.writer].Capacity) - b.left + b.cut
}

func (b *Bucket) out() (n int64) {
	for _, h := range b.held {
		if !h.nothing {
			n += h.n
		}
	}
	return n
}

func (b *Bucket) clone() *Bucket {
	c := *b
	c.held = slices.Clone(b.held)
	return &c
}

// steps is how many steps of l have come after at and until now, and the
// instant of the last one.
func steps(l core.Limit, at, now int64) (n float64, last int64) {
	interval := l.RefillInterval.Microseconds()
	switch {
	case l.Mode == core.Continuous:
		return float64(now-at) / float64(interval), now
	case l.Mode == core.Stepped:
		k := (now - at) / interval
		return float64(k), at + k*interval
	}
	return float64(period(l, now) - period(l, at)), now
}

// period numbers the periods of an Aligned limit.
func period(l core.Limit, at int64) int64 {
	if l.Location == nil {
		return at / l.RefillInterval.Microseconds()
	}
	t := time.UnixMicro(at).In(l.Location)
	if months := int64(l.RefillInterval / core.Month); l.RefillInterval%core.Month == 0 {
		return (int64(t.Year())*12 + int64(t.Month()) - 1) / months
	}
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC).Unix() / 86400
}

// begin is when the period of now began.
func begin(l core.Limit, now int64) int64 {
	if l.Location == nil {
		return now - now%l.RefillInterval.Microseconds()
	}
	lo, hi := now-400*86400*1e6, now
	for p := period(l, now); lo < hi; {
		if m := (lo + hi) / 2; period(l, m) >= p {
			hi = m
		} else {
			lo = m + 1
		}
	}
	return lo
}

// next is when the next step after now comes.
func next(l core.Limit, at, now int64) int64 {
	interval := l.RefillInterval.Microseconds()
	switch {
	case l.Mode == core.Stepped:
		return at + ((now-at)/interval+1)*interval
	case l.Location == nil:
		return now - now%interval + interval
	}
	lo, hi := now+1, now+400*86400*1e6
	for p := period(l, now); lo < hi; {
		if m := (lo + hi) / 2; period(l, m) > p {
			hi = m
		} else {
			lo = m + 1
		}
	}
	return lo
}

// owes notes a debt of which a calendar may have forgiven some.
func (b *Bucket) owes() {
	l := b.defs[b.writer]
	b.lost = b.lost || calendar(l) && b.left < -float64(l.Capacity)
}

const (
	tiny     = 1e-9
	rounding = 1e-5 // of what one definition leaves to another
)

func (b *Bucket) refillTo(now int64) {
	l := b.defs[b.writer]
	n, last := steps(l, b.at, now)
	gained, room := n*l.RefillRate, float64(l.Capacity-b.out())
	b.base = min(b.base+gained, float64(l.Capacity))
	b.at = last
	over := b.left + gained - room
	b.left += gained
	if math.Abs(over) <= b.fuzzy {
		b.lost = true
	}
	if over >= -tiny && (over > tiny || b.cut == 0) {
		b.left = room
		if over > 0 {
			b.cut = max(0, b.cut-over)
		}
		if b.out() == 0 && b.cut == 0 {
			b.at = now // a full bucket's steps begin with its next use
		}
	}
	b.lost = b.lost || b.cut > 0 && b.cut < rounding // whether anything is cut makes a difference
}

// give returns n tokens, as far as there is room.
func (b *Bucket) give(n float64) {
	room := float64(b.defs[b.writer].Capacity - b.out())
	if b.cut > 0 {
		first := min(n, max(0, min(b.base, room)-b.left))
		paid := min(n-first, b.cut)
		b.cut -= paid
		rest := b.left + n - paid
		if rest > room {
			b.cut = max(0, b.cut-(rest-room))
		}
		b.left = max(b.left, min(rest, room))
		return
	}
	b.left = max(b.left, min(b.left+n, room))
}

// advance moves the bucket to now, under its writer.
func (b *Bucket) advance(now int64) {
	if b.writer >= 0 {
		for len(b.held) > 0 && b.held[0].end < now {
			h := b.held[0]
			b.refillTo(h.end)
			b.held = b.held[1:]
			if h.returns {
				b.give(float64(h.n))
			}
		}
		b.refillTo(now)
	}
}

// fullAt is when nothing is used and held any more.
func (b *Bucket) fullAt(now int64) int64 {
	c := b.clone()
	for range 20000 {
		if c.advance(now); c.Used() < tiny && c.out() == 0 {
			return now
		}
		t := next(c.defs[c.writer], c.at, now)
		if len(c.held) > 0 {
			t = min(t, c.held[0].end+1)
		}
		now = t
	}
	return math.MaxInt64
}

// calendar reports whether other definitions don't know when the periods of l
// begin. Days in UTC are multiples on the Unix clock.
func calendar(l core.Limit) bool {
	return l.Location != nil && (l.Location.String() != "UTC" || l.RefillInterval != 24*time.Hour)
}

// same reports whether two definitions are one.
func same(a, b core.Limit) bool {
	return a.Capacity == b.Capacity && a.RefillRate == b.RefillRate && a.RefillInterval == b.RefillInterval && a.Mode == b.Mode && a.Location.String() == b.Location.String()
}

// sameSteps reports whether two definitions are on one calendar.
func sameSteps(a, b core.Limit) bool {
	return a.RefillInterval == b.RefillInterval && a.Mode == b.Mode && b.Location != nil && a.Location.String() == b.Location.String()
}

// under is the bucket at now as definition d sees it. ok is false where the
// documentation does not say.
func (b *Bucket) under(d int, now int64) (_ *Bucket, ok bool) {
	c := b.clone()
	if c.writer < 0 {
		c.writer, c.left, c.at = d, float64(c.defs[d].Capacity), now
		return c, true
	}
	if same(c.defs[c.writer], c.defs[d]) {
		c.advance(now)
		c.writer = d
		return c, true
	}
	w, l := c.defs[c.writer], c.defs[d]
	ended := now
	if calendar(w) && !sameSteps(w, l) {
		if len(c.held) > 0 { // how much refills until they end is not said
			return nil, false
		}
		if c.fullAt(c.written) <= now {
			c.writer, c.left, c.cut, c.at, c.held = d, float64(l.Capacity), 0, now, nil
			return c, true
		}
		ended = c.written
	} else {
		c.advance(now)
		if c.Used() < tiny && c.out() == 0 {
			c.writer, c.left, c.cut, c.at = d, float64(l.Capacity), 0, now
			return c, true
		}
		switch w.Mode {
		case core.Stepped:
			ended = c.at
		case core.Aligned:
			ended = max(b.written, begin(w, now))
		}
	}
	if c.left != math.Trunc(c.left) || c.cut != math.Trunc(c.cut) || c.base != math.Trunc(c.base) {
		c.fuzzy += rounding
	}
	by := float64(l.Capacity - w.Capacity)
	out := float64(c.out())
	switch {
	case by >= 0:
		paid := min(by, c.cut)
		c.left += by - paid
		c.cut = max(0, c.cut-by)
	default:
		left := max(min(c.left+by+min(c.cut, -by), float64(l.Capacity)-out), min(c.left, -out))
		if c.base = max(0, c.base-max(0, c.left-left)); c.cut == 0 {
			c.base = 0
		}
		c.cut = max(0, c.cut-by-(c.left-left))
		c.left = left
	}
	c.lost = c.lost || c.cut > 0 && c.cut < rounding // whether anything is cut makes a difference
	c.writer, c.at = d, now
	c.owes()
	if (c.left < float64(l.Capacity)-tiny || c.cut > 0) && l.Mode != core.Aligned {
		step := int64(1)
		if l.Mode == core.Stepped {
			step = l.RefillInterval.Microseconds()
		}
		c.at = max(ended, now-step+1)
	}
	return c, true
}
