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

// maxBacklog bounds what a Backlog has; beyond it, slots come back after
// MaxHold, and tokens refill.
const maxBacklog = 10_000

// Backlog has requests that give something back and did not reach a server
// while it was away. They are sent when the breaker closes. If no other call
// tries the server, Backlog does, once in a pause of the breaker. Each is
// dropped at its Until: see [store.Request.Later].
//
// Backlog needs no closing: a timer runs while it has requests, and no
// goroutine waits.
type Backlog struct {
	breaker *Breaker
	pause   time.Duration
	send    func([]Returned)    // sends all without waiting, and adds again what does not reach the server
	try     func(Returned) bool // enters the breaker, then sends what Trial returns; reports whether the server answers

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

// NewBacklog returns the Backlog of breaker, which has none yet. pause is that
// of breaker.
func NewBacklog(breaker *Breaker, pause time.Duration, send func([]Returned), try func(Returned) bool) *Backlog {
	b := &Backlog{breaker: breaker, pause: pause, send: send, try: try}
	breaker.closed = b.sendAll
	return b
}

func (b *Backlog) Add(r Returned) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.list) < maxBacklog {
		b.list = append(b.list, r)
		b.setTimer()
	}
}

// Trial returns a request for the breaker's trial, if there is any: the end of
// a hold, which it removes, because that can be sent again if the server
// takes no writes. If there is none, it only asks for the state of a bucket.
func (b *Backlog) Trial() (r Returned, some bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drop(); len(b.list) == 0 {
		return r, false
	}
	first := rand.IntN(len(b.list)) // on a cluster, the servers of some may be back
	for i := range b.list {
		i = (first + i) % len(b.list)
		if r = b.list[i]; r.Request.Ends != nil && !r.Request.Charges() {
			b.list = slices.Delete(b.list, i, i+1)
			return r, true
		}
	}
	return r.state(), true
}

func (r Returned) state() Returned {
	r.Request.Request, r.Request.Until = r.Request.Look(), 0
	return r
}

// attempt sends all, if the server answers.
func (b *Backlog) attempt() {
	if !b.breaker.Open() || b.tryAny() {
		b.sendAll()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set = false
	b.setTimer()
}

// tryAny tries the server of one of the requests. That stays in the list until
// the breaker has admitted the trial: one that comes first must find it.
func (b *Backlog) tryAny() bool {
	b.mu.Lock()
	b.drop()
	list := b.list
	var r Returned
	if len(list) > 0 {
		r = list[rand.IntN(len(list))]
	}
	b.mu.Unlock()
	return len(list) > 0 && b.try(r.state())
}

func (b *Backlog) sendAll() {
	b.mu.Lock()
	b.drop()
	list := b.list
	b.list = nil
	b.mu.Unlock()
	if len(list) > 0 {
		b.send(list)
	}
}

// drop drops what no longer matters. b.mu is held.
func (b *Backlog) drop() {
	now := time.Now().UnixNano()
	b.list = slices.DeleteFunc(b.list, func(r Returned) bool { return r.Request.Until <= now })
}

// setTimer has attempt called after a pause, if there is anything to send. b.mu
// is held.
func (b *Backlog) setTimer() {
	if b.set || len(b.list) == 0 {
		return
	}
	b.set = true
	if b.timer == nil {
		b.timer = time.AfterFunc(b.pause, b.attempt)
		return
	}
	b.timer.Reset(b.pause)
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
	case unsent:
		return r, r.Until != 0
	case r.Holds() && r.Action != bucket.Extend:
		r.Request = r.Ending()
		return r.Later(), true
	case r.Until != 0 && r.Ends != nil && !r.Charges(): // its hold must not end without the charge
		each := make([]int64, len(r.Set.Rates))
		r.Each = &each
		return r, true
	}
	return r, false
}
