package outage

import (
	"errors"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// maxKept bounds what a Breaker keeps; beyond it, slots come back after
// MaxHold, and tokens refill.
const maxKept = 10_000

// Returned is a request that gives something back, and the key that its store
// has for it.
type Returned struct {
	Key     string
	Request store.Request
}

// Keep keeps requests that give something back and did not reach the server.
// They are sent before the first decision after an outage, also if no call
// tries the server. Each is dropped at its Until: see [store.Request.Later].
func (b *Breaker) Keep(list ...Returned) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = append(b.kept, list[:min(len(list), maxKept-len(b.kept))]...)
	b.setTimer()
}

// Kept reports whether there is something to send.
func (b *Breaker) Kept() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now().UnixNano()
	b.kept = slices.DeleteFunc(b.kept, func(r Returned) bool { return r.Request.Until <= now })
	return len(b.kept) > 0
}

// SendKept sends what is kept. It first asks for the state of a bucket, because
// a request whose answer is lost may not be sent again. It returns the error of
// Send.
func (b *Breaker) SendKept() error {
	if !b.Kept() {
		return nil
	}
	b.mu.Lock()
	list := b.kept
	b.kept = nil
	b.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	look := list[0]
	look.Request.Request, look.Request.Until = look.Request.Look(), 0
	if err := b.Send([]Returned{look}); err != nil {
		b.Keep(list...)
		return err
	}
	return b.Send(list)
}

// Later returns what a store should send when its server is back, after r has
// failed with err. some is false if it should send nothing. unsent means that r
// was not executed and never will be.
//
// What was not sent can be sent, if its caller does not ask again: see
// [store.Request.Later]. What was sent may have been executed, so only the end
// of a hold by its ticket is sent again, which has an effect once. So slots and
// estimates also come back if the caller of the request that took them got an
// error. If that was one for up to n tokens, or Redis gets it after the end, they
// come back after their MaxHold. A Settle that charges is not sent again: its
// hold would end without the charge.
func Later(r store.Request, err error, unsent bool) (later store.Request, some bool) {
	switch {
	case err == nil, errors.As(err, new(*store.StateError)), errors.Is(err, store.ErrApart), errors.Is(err, store.ErrClock):
		return r, false
	case unsent:
		return r, r.Until != 0
	case r.Holds() && r.Action != bucket.Extend:
		r.Request = r.Ending()
		return r.Later(), true
	case r.Until != 0 && r.Ends != nil && !r.Charges():
		each := make([]int64, len(r.Set.Rates))
		r.Each = &each
		return r, true
	}
	return r, false
}
