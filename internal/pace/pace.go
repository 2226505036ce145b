// Package pace spreads the work of a tool over time, so that others who use the
// server meanwhile hardly notice it. It is a package because the command, a
// module of its own, and the lists of package redisstore both do so.
package pace

import (
	"context"
	"time"
)

const (
	// busy is how many times as long as the fastest piece one takes that was
	// too large, or waited for the work of others.
	busy = 2
	// anew is when the fastest piece is forgotten: the way to the server, or
	// the server, may be another.
	anew = 10 * time.Second
	// late is how much of what timers were late is caught up.
	late = 5 * time.Millisecond
)

// Pace says how many items the next piece of work may have, and when it may
// follow.
//
// A server does one thing at a time, so whoever asks it during a piece waits
// for the whole of it. Pieces grow until one takes twice as long as the
// fastest, whose time is about the round trip. So a piece keeps the server busy
// for about a round trip, and who comes during it has the answer in twice the
// usual time.
//
// A piece that takes longer finds a server that is busy with others, and the
// next is half as large. After each comes a pause that is at least as long as
// the piece took: the tool waits as long as it makes the server work.
//
// It is for one goroutine.
type Pace struct {
	perSecond, least, most int

	size    int
	fastest time.Duration // piece since then
	since   time.Time
	began   time.Time // the piece
	next    time.Time // when the next may begin, by the rate alone
}

// New returns a pace of at most perSecond items a second, in pieces of least to
// most items. With 0 a second, there are no pauses, and all pieces are of most.
func New(perSecond, least, most int) *Pace {
	return &Pace{perSecond: perSecond, least: least, most: most, size: least}
}

// Next begins a piece, and returns how many items it may have.
func (p *Pace) Next() int {
	p.began = time.Now()
	if p.perSecond <= 0 {
		return p.most
	}
	return min(p.size, max(1, p.perSecond/20)) // a piece is at most what the rate allows in 50 ms
}

// Wait waits until the next piece may begin, after one of n items for which the
// server took so long. What else the tool did meanwhile counts for the rate
// alone. It returns the error of ctx if that ends first.
func (p *Pace) Wait(ctx context.Context, n int, took time.Duration) error {
	if p.perSecond <= 0 {
		return ctx.Err()
	}
	now := time.Now()
	if now.Sub(p.since) > anew {
		p.since, p.fastest, p.size = now, took, p.least
	}
	p.fastest = min(p.fastest, took)
	if earliest := p.began.Add(-late); p.next.Before(earliest) { // what a slow server cost is lost
		p.next = earliest
	}
	p.next = p.next.Add(time.Duration(n) * time.Second / time.Duration(p.perSecond))
	if p.size = min(p.most, p.size+1+p.size/8); took > busy*p.fastest {
		p.size = max(p.least, p.size/2)
	}
	if pause := now.Add(took); p.next.Before(pause) {
		return sleepUntil(ctx, pause)
	}
	return sleepUntil(ctx, p.next)
}

// sleepUntil waits until t, or until ctx ends.
func sleepUntil(ctx context.Context, t time.Time) error {
	wait := time.Until(t)
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
