package circuit

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

const (
	// maxKept bounds what one Kept has. It is more than the requests that a process has at work; beyond it, slots come back after
	// MaxHold, and tokens refill.
	maxKept = 10_000
	// keptFor bounds how long a request is kept, whatever its limits are.
	keptFor = 24 * time.Hour
)

// Kept has requests that give something back and did not reach a server while it was away. They are sent when the breaker closes. If
// no other call tries the server, Kept does, once in a pause of the breaker. T is a request as its store sends it.
//
// Kept needs no closing: a timer runs while it has requests, and no goroutine waits. Requests that are over are dropped: see [Later].
type Kept[T any] struct {
	breaker *Breaker
	pause   time.Duration
	send    func([]T)    // sends all without waiting, and adds again what does not reach the server
	try     func(T) bool // asks the server for something harmless, by the key of one, and reports whether it answers

	mu    sync.Mutex // guards all below
	list  []kept[T]
	timer *time.Timer // calls attempt; nil until it is first needed
	set   bool        // the timer is running, or attempt is
}

// kept is a request, and when it no longer matters.
type kept[T any] struct {
	request T
	end     time.Time
}

// Keep returns the Kept of b, which has none yet. pause is that of b.
func Keep[T any](b *Breaker, pause time.Duration, send func([]T), try func(T) bool) *Kept[T] {
	k := &Kept[T]{breaker: b, pause: pause, send: send, try: try}
	b.closed = k.sendAll
	return k
}

// Add keeps a request for so long.
func (k *Kept[T]) Add(request T, life time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.list) < maxKept {
		k.list = append(k.list, kept[T]{request, time.Now().Add(life)})
		k.setTimer()
	}
}

// Some reports whether anything is kept.
func (k *Kept[T]) Some() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.list) > 0
}

// attempt sends what is kept, if the server answers.
func (k *Kept[T]) attempt() {
	if one, some := k.any(); some && (!k.breaker.Open() || k.try(one)) {
		k.sendAll()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set = false
	k.setTimer()
}

// any drops what no longer matters, and returns one of the others, if there are any: each has its turn, because on a cluster the
// servers of some may be back.
func (k *Kept[T]) any() (one T, some bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	rest, now := k.list[:0], time.Now()
	for _, x := range k.list {
		if now.Before(x.end) {
			rest = append(rest, x)
		}
	}
	clear(k.list[len(rest):])
	if k.list = rest; len(rest) == 0 {
		k.list = nil
		return one, false
	}
	return rest[rand.IntN(len(rest))].request, true
}

// sendAll sends what is kept.
func (k *Kept[T]) sendAll() {
	k.mu.Lock()
	list := k.list
	k.list = nil
	k.mu.Unlock()
	var requests []T
	for now := time.Now(); len(list) > 0; list = list[1:] {
		if now.Before(list[0].end) {
			requests = append(requests, list[0].request)
		}
	}
	if len(requests) > 0 {
		k.send(requests)
	}
}

// setTimer has attempt called after a pause, if there is anything to send. k.mu is held.
func (k *Kept[T]) setTimer() {
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

// Later returns what a store should send when its server is back, after r has failed with err, and for how long that matters. some
// is false if it should send nothing. unsent means that r was not executed and never will be.
//
// What was not sent can be sent, if its caller does not ask again: see [store.Request.Later]. What was sent may have been executed, so
// none of it is sent again, but for the end of a hold by its ticket: a hold ends once, however often it is asked to. So slots and
// estimates also come back if a request took them whose caller got an error.
func Later(r store.Request, err error, unsent bool) (later store.Request, life time.Duration, some bool) {
	takes := r.Holds() && r.Ticket >= bucket.FirstReturning
	switch {
	case err == nil, errors.As(err, new(*store.StateError)), errors.Is(err, store.ErrApart), errors.Is(err, store.ErrClock):
		return r, 0, false
	case r.Action == bucket.End, unsent && r.Later:
	case unsent:
		return r, 0, false
	case takes:
		r.Request = bucket.Request{Plan: r.Plan, Action: bucket.End, Ends: bucket.Ending{Ticket: r.Ticket, Back: bucket.MaxHeld}}
	case r.Later && r.Ends.Ticket != 0 && !charges(&r):
		r.Request = bucket.Request{Plan: r.Plan, Action: bucket.End, Ends: r.Ends}
	default:
		return r, 0, false
	}
	return r, lifeOf(&r), true
}

// charges reports whether r, which returns tokens, takes some too: its hold must not end without that.
func charges(r *store.Request) bool {
	for i := range r.Plan.Rates {
		if r.Of(i) < 0 {
			return true
		}
	}
	return false
}

// lifeOf is how long r matters: until what it gives back is there without it. A hold ends by itself, and a bucket is full.
func lifeOf(r *store.Request) time.Duration {
	if r.Ends.Ticket != 0 && r.Ends.Ticket < bucket.FirstReturning { // a reservation: it may be due much later
		return keptFor
	}
	life := 0.0
	for i := range r.Plan.Rates {
		rate := &r.Plan.Rates[i]
		life = max(life, float64(rate.Hold), 2*float64(rate.Fill.Capacity)*math.Abs(float64(rate.Fill.Pace)))
	}
	return time.Duration(min(life, float64(keptFor.Microseconds()))) * time.Microsecond
}

// Probe returns the request that only asks for the state of r's bucket.
func Probe(r store.Request) store.Request {
	r.Request, r.Later = bucket.Request{Plan: r.Plan}, false
	return r
}
