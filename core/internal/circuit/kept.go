package circuit

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// maxKept bounds what one Kept has; beyond it, slots come back after MaxHold,
// and tokens refill.
const maxKept = 10_000

// Kept has requests that give something back and did not reach a server while
// it was away. They are sent when the breaker closes. If no other call tries
// the server, Kept does, once in a pause of the breaker. Each is dropped at its
// Until: see [store.Request.Later].
//
// Kept needs no closing: a timer runs while it has requests, and no goroutine
// waits.
type Kept struct {
	breaker *Breaker
	pause   time.Duration
	send    func([]Returned)    // sends all without waiting, and adds again what does not reach the server
	try     func(Returned) bool // enters the breaker, then sends what Probe returns; reports whether the server answers

	mu    sync.Mutex // guards all below
	list  []Returned
	timer *time.Timer // calls attempt; nil until it is first needed
	set   bool        // the timer is running, or attempt is
}

// Returned is a request that gives something back, and the key that its store
// has for it.
type Returned struct {
	Key     string
	Request store.Request
}

// Keep returns the Kept of b, which has none yet. pause is that of b.
func Keep(b *Breaker, pause time.Duration, send func([]Returned), try func(Returned) bool) *Kept {
	k := &Kept{breaker: b, pause: pause, send: send, try: try}
	b.closed = k.sendAll
	return k
}

func (k *Kept) Add(r Returned) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.list) < maxKept {
		k.list = append(k.list, r)
		k.setTimer()
	}
}

// Probe returns a request for the breaker's trial, if anything is kept: the end
// of a hold, which it removes, because that can be sent again if the server
// takes no writes. If there is none, it only asks for the state of a bucket.
func (k *Kept) Probe() (r Returned, some bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.drop(); len(k.list) == 0 {
		return r, false
	}
	first := rand.IntN(len(k.list)) // on a cluster, the servers of some may be back
	for i := range k.list {
		i = (first + i) % len(k.list)
		if r = k.list[i]; r.Request.Action == bucket.End {
			k.list = slices.Delete(k.list, i, i+1)
			return r, true
		}
	}
	return r.state(), true
}

func (r Returned) state() Returned {
	r.Request.Request, r.Request.Until = bucket.Request{Set: r.Request.Set}, 0
	return r
}

// attempt sends what is kept, if the server answers.
func (k *Kept) attempt() {
	if !k.breaker.Open() || k.tryAny() {
		k.sendAll()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set = false
	k.setTimer()
}

// tryAny tries the server of one that is kept. That stays in the list until the
// breaker has admitted the trial: one that comes first must find it.
func (k *Kept) tryAny() bool {
	k.mu.Lock()
	k.drop()
	list := k.list
	var r Returned
	if len(list) > 0 {
		r = list[rand.IntN(len(list))]
	}
	k.mu.Unlock()
	return len(list) > 0 && k.try(r.state())
}

func (k *Kept) sendAll() {
	k.mu.Lock()
	k.drop()
	list := k.list
	k.list = nil
	k.mu.Unlock()
	if len(list) > 0 {
		k.send(list)
	}
}

// drop drops what no longer matters. k.mu is held.
func (k *Kept) drop() {
	now := time.Now().UnixNano()
	k.list = slices.DeleteFunc(k.list, func(r Returned) bool { return r.Request.Until <= now })
}

// setTimer has attempt called after a pause, if there is anything to send. k.mu
// is held.
func (k *Kept) setTimer() {
	if k.set || len(k.list) == 0 {
		return
	}
	k.set = true
	if k.timer == nil {
		k.timer = time.AfterFunc(k.pause, k.attempt)
		return
	}
	k.timer.Reset(k.pause)
}

// Later returns what a store should send when its server is back, after r has
// failed with err. some is false if it should send nothing. unsent means that r
// was not executed and never will be.
//
// What was not sent can be sent, if its caller does not ask again: see
// [store.Request.Later]. What was sent may have been executed, so only the end
// of a hold by its ticket is sent again, which has an effect once. So slots and
// estimates also come back if the caller of the request that took them got an
// error.
func Later(r store.Request, err error, unsent bool) (later store.Request, some bool) {
	switch {
	case err == nil, errors.As(err, new(*store.StateError)), errors.Is(err, store.ErrApart), errors.Is(err, store.ErrClock):
		return r, false
	case unsent, r.Action == bucket.End:
		return r, r.Until != 0
	case r.Holds() && r.Ticket >= bucket.FirstReturning:
		r.Request = bucket.Request{Set: r.Set, Action: bucket.End, Ends: bucket.Ending{Ticket: r.Ticket, Back: bucket.MaxHeld}}
		return r.Later(), true
	case r.Until != 0 && r.Ends.Ticket != 0 && !r.Charges(): // its hold must not end without the charge
		r.Request = bucket.Request{Set: r.Set, Action: bucket.End, Ends: r.Ends}
		return r, true
	}
	return r, false
}
