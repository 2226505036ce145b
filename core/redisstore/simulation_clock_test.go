package redisstore_test

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// The clock: before most operations it goes on, to an instant at which
// something may go wrong, and at times it steps back.

// shift moves the clock as o says.
func (pl *player) shift(o op) {
	rules := pl.rules[o.pick%len(pl.rules)]
	rule := &rules[o.pick%len(rules)]
	interval := rule.interval
	around := int64(o.pick%3) - 1
	d := int64(0)
	switch o.move {
	case moveInstant:
		d = 1
	case moveShort:
		d = int64(o.part * 60_000)
	case moveSeconds:
		d = int64(o.part * 3_000_000)
	case movePart:
		d = int64(o.part * 2 * float64(interval))
	case moveBoundary:
		d = rule.toNextStep(pl.wall) + around
	case moveDue:
		for _, g := range pl.reserved {
			if due := g.at - pl.oracle.now + around; due >= 0 && (d == 0 || due < d) {
				d = due
			}
		}
	case moveRetry:
		d = max(0, pl.retry+around)
	case moveLong:
		d = int64(o.part * 20 * float64(interval))
	case moveBack:
		d = -int64(o.part * 2 * float64(interval))
	case moveBackShort:
		d = -int64(o.part * 4_000_000)
	case moveNone:
	}
	pl.moveBy(d)
}

// canMove reports whether the clock can move so far.
func (pl *player) canMove(d int64) bool {
	to := pl.wall + d
	return to >= limittest.Earliest.UnixMicro() && to <= limittest.Latest.UnixMicro()
}

// moveBy moves the clock of the environment and of all oracles, if it can.
func (pl *player) moveBy(d int64) {
	if d == 0 || !pl.canMove(d) {
		return
	}
	if d < 0 {
		pl.environment.stepBack(time.Duration(-d) * time.Microsecond)
	}
	pl.everyOracle(func(o *oracle) { o.move(d) })
	pl.clock.wall.Store(pl.wall)
	pl.marked = append(pl.marked, map[bool]opKind{true: isForward, false: isBack}[d > 0])
	if d < 0 {
		pl.count++
		for _, p := range pl.procs {
			if p != nil && p.deniedBefore > 0 {
				p.denied, p.deniedAt = p.deniedBefore, pl.oracle.now
			}
		}
	}
	pl.note("%28s the clock: %+v", "", time.Duration(d)*time.Microsecond)
}
