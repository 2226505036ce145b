// Package rtt estimates the round-trip time to a server, and how many batches
// should be in flight for it.
package rtt

import (
	"cmp"
	"time"
)

const (
	// MinInFlight batches may be in flight however short the round trip is: the
	// server works on one while others are on the way, or are read by this
	// process.
	MinInFlight = 4
	// maxInFlight batches may be in flight however long the round trip is.
	maxInFlight = 32
	// FullBatch is how long a slow server takes for a full batch. If a round
	// trip is n times as long, n batches in flight keep the server busy.
	FullBatch = 2 * time.Millisecond
	// BusyBatch is how long a full batch may take if the server shares its
	// processors with its clients.
	BusyBatch = 3 * FullBatch
	// easyInterval: one script call, small ones too, in so long is no load for
	// a server. So small batches, which spare decisions the wait for each
	// other, may be sent at this rate: a round trip of 1 ms has room for 10 of
	// them in flight.
	easyInterval = 100 * time.Microsecond
	// EasyInFlight bounds the batches in flight to a server that is not under
	// load.
	EasyInFlight = 12
	// raiseAfter is how long all calls must take longer than the estimate
	// explains before it rises. A shorter pause of the server or of this
	// process does not change it.
	raiseAfter = 250 * time.Millisecond
	// defaultPoolSize is the PoolSize of a client whose options have none.
	defaultPoolSize = 10
)

// RoundTrip estimates the round-trip time. A call takes the round trip plus the
// server's work on this and earlier calls of this process. So the round trip is
// at most the time of the call, and at least that time without the work.
//
// The estimate falls with the first call that took less. It rises when no call
// has confirmed it for raiseAfter, to the least that explains these calls. So
// the work of a busy server on calls of this process is not taken for a longer
// round trip.
//
// Example: the estimate is 1 ms, and a call takes 5 ms. If the server may have
// worked 4 ms for this process, the call confirms the estimate. If at most 1
// ms, the round trip was 4 ms or more; if that goes on for 250 ms, the estimate
// becomes 4 ms.
type RoundTrip struct {
	estimate time.Duration // 0: not known
	lower    time.Duration // the least lower bound of the calls that did not confirm the estimate; 0: the last one did
	since    time.Time     // when the first of these calls ended
}

// Note takes in a call that has ended now. work is how long the server may have
// worked on it and on others of this process.
func (t *RoundTrip) Note(took, work time.Duration, now time.Time) {
	lower := took - work
	switch {
	case t.estimate == 0 || took < t.estimate:
		t.estimate = took
	case lower > t.estimate:
		if t.lower == 0 { // the time starts now, not with the last call: a time without calls proves nothing
			t.lower, t.since = lower, now
		}
		t.lower = min(t.lower, lower)
		if now.Sub(t.since) < raiseAfter {
			return
		}
		t.estimate = t.lower
	}
	t.lower = 0
}

// Get returns the estimate; 0 if there is none yet.
func (t *RoundTrip) Get() time.Duration { return t.estimate }

// InFlight is how many batches should be in flight: as many as keep the server
// busy with full batches, or more small ones as long as they are no load for
// it. Examples: 4 for 0.1 ms, 10 for 1 ms, 12 for 20 ms, 25 for 50 ms.
func (t *RoundTrip) InFlight() int {
	easy := min(int(t.Get()/easyInterval), EasyInFlight)
	return min(max(int(t.Get()/FullBatch), easy, MinInFlight), maxInFlight)
}

// HighLatency reports whether it takes more than MinInFlight full batches to
// keep the server busy: from 10 ms on.
func (t *RoundTrip) HighLatency() bool { return t.Get() >= (MinInFlight+1)*FullBatch }

// MaxInFlight is how many batches a client may have in flight to each server:
// three quarters of its pool for that, because others may use the client too. A
// size of 0 is go-redis' default.
func MaxInFlight(poolSize int) int {
	size := cmp.Or(poolSize, defaultPoolSize)
	return max(min(size, MinInFlight), size-size/4)
}
