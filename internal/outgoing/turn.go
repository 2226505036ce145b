package outgoing

import (
	"cmp"
	"context"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/advice"
)

// Turn is a request that may be sent. After one of Served, Refused, Busy and
// Lost it is ended by End.
type Turn struct {
	Waited time.Duration // at the gate

	gate   *Gate
	lane   *lane
	ctx    context.Context
	units  core.Units
	pauses int         // that refusals had begun when it was sent
	result core.Result // the limiter's; zero: there is none

	sent   time.Time     // when
	hold   time.Duration // for how long the slots are held
	holdAt time.Time     // when to hold them for longer; zero: not asked yet
}

// Send calls send, which sends the request. If send panics, the turn ends.
func (t *Turn) Send(send func()) {
	returned := false
	defer func() {
		if !returned {
			t.Lost()
			t.End(nil)
		}
	}()
	send()
	returned = true
}

// Served notes that the server has done what it was asked for. With a limiter,
// what the answer calls left does not count: it is what the limiter leaves, and
// would slow down those that came later.
func (t *Turn) Served(a advice.Advice) {
	if t.gate.config.Limiter != nil {
		a.Quotas = nil
	}
	t.answered(func(now time.Time) {
		t.lane.pause.answered(t)
		t.lane.pace.heard(a.Quotas, t.units, t.lane.underWay, now)
	})
}

// Refused notes that the server refused the request for a limit. All requests
// of the key pause, for as long as the answer says.
func (t *Turn) Refused(a advice.Advice) { t.refused(wait(a), true) }

// Busy notes that the server is not available for a time. That says nothing of
// limits.
func (t *Turn) Busy(a advice.Advice) { t.refused(wait(a), false) }

// Lost notes that there is no answer.
func (t *Turn) Lost() { t.answered(func(time.Time) {}) }

// wait returns how long an answer asks to wait; 0: it does not say. Without
// Retry-After it is the reset of a limit of which nothing is left.
func wait(a advice.Advice) time.Duration {
	if a.RetryAfter > 0 {
		return a.RetryAfter
	}
	var longest time.Duration
	for _, q := range a.Quotas {
		if q.Left == 0 {
			longest = max(longest, q.Reset)
		}
	}
	return longest
}

// refused begins a pause. limit says that a limit was the reason.
func (t *Turn) refused(said time.Duration, limit bool) {
	var until time.Time
	var isNew bool
	t.answered(func(now time.Time) {
		before := t.lane.pause.until
		if isNew = t.lane.pause.refused(t, said, now); isNew && limit {
			t.lane.refused(t.gate.config.Limiter != nil, now)
		}
		if t.lane.pause.until.After(before) {
			until = t.lane.pause.until
		}
	})
	t.gate.observe(t.ctx, Event{Key: t.lane.key, Kind: Refused})
	if !until.IsZero() {
		t.gate.observe(t.ctx, Event{Key: t.lane.key, Kind: Paused, Until: until})
		t.gate.config.Shared.begin(t.ctx, t.lane.key, time.Until(until))
	}
}

// answered notes that the request is no longer under way, and then calls note.
func (t *Turn) answered(note func(now time.Time)) {
	t.lane.mu.Lock()
	defer t.lane.mu.Unlock()
	t.lane.underWay--
	now := time.Now()
	t.lane.pause.end(t, now)
	note(now)
	t.lane.queue.wakeFirst()
}

// Paused returns until when the key pauses.
func (t *Turn) Paused() time.Time {
	t.lane.mu.Lock()
	defer t.lane.mu.Unlock()
	return t.lane.pause.until
}

// Units returns what the request took besides one request.
func (t *Turn) Units() core.Units { return t.units }

// Hold returns for how long the request holds slots of the limiter; 0: it holds
// none.
func (t *Turn) Hold() (shortest time.Duration) {
	for _, r := range t.result.Limits() {
		if r.Limit.Mode != core.Concurrent || r.Cost == 0 {
			continue
		}
		if hold := cmp.Or(r.Limit.MaxHold, time.Minute); shortest == 0 || hold < shortest {
			shortest = hold
		}
	}
	return shortest
}

// HoldOn holds the slots for as long again, if half of their time is over. It
// is called while the answer is read, by one goroutine at a time. If they are
// lost to others, the request goes on without.
func (t *Turn) HoldOn() {
	now := time.Now()
	if t.holdAt.IsZero() {
		t.hold = t.Hold()
		t.holdAt = t.sent.Add(t.hold / 2)
	}
	if t.hold > 0 && now.After(t.holdAt) {
		t.holdAt = now.Add(t.hold / 2)
		_ = t.result.Hold(t.ctx)
	}
}

// NotSent gives back what the request took: it was never sent. It is called
// instead of End.
func (t *Turn) NotSent() {
	_ = t.result.Undo(context.WithoutCancel(t.ctx))
	t.leave()
}

// End ends a request whose answer is over. used is what it really took; nil:
// what was taken stays.
func (t *Turn) End(used core.Units) {
	ctx := context.WithoutCancel(t.ctx)
	if used != nil {
		_ = t.result.Settle(ctx, used) // observers of the limiter see the error
	}
	_ = t.result.Release(ctx)
	t.leave()
}

func (t *Turn) leave() {
	t.lane.mu.Lock()
	if t.lane.slotted { // a slot is free
		t.lane.notBefore = time.Time{}
	}
	t.lane.queue.wakeFirst()
	t.lane.mu.Unlock()
	t.gate.lanes.leave(t.lane)
}
