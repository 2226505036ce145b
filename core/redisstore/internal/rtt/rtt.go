// Package distance estimates how far away a server is, and how many calls at once that takes.
package rtt

import (
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// MinFlights may be under way at once however near the server is. One is decided there while others are on their
	// way, or are read by this process.
	MinInFlight = 4
	// maxFlights may be under way at once however far the server is.
	maxInFlight = 32
	// FullBatch is how long a server takes for a full batch, on a slow machine. If a round trip is n times as
	// long, n flights keep the server busy.
	FullBatch = 2 * time.Millisecond
	// BusyBatch is how long a full batch may take where the server shares its processors with its clients.
	BusyBatch = 3 * FullBatch
	// sparing is the least time between calls, on average, that keeps a server at its ease, however small they are. While a
	// round trip has room for more of them, decisions need not wait for each other: up to EasyFlights go at once.
	sparing      = 100 * time.Microsecond
	EasyInFlight = 12
	// follows is how long all calls must have taken longer than the estimate explains before it rises. A shorter pause of
	// the server or of this process is no distance.
	follows = 250 * time.Millisecond
	// usualPool is the PoolSize that is assumed of a client that has none.
	usualPool = 10
)

// RoundTrip estimates the time to the server and back. A call takes the round trip and the work on what this process has
// sent before, so each call bounds the round trip from both sides. The estimate falls with the first call that took less,
// and rises when no call has confirmed it for a while: a server that is near but busy with this process's calls does not
// seem far.
type RoundTrip struct {
	estimate time.Duration // 0: not known
	least    time.Duration // what calls took without the work, that did not confirm the estimate; 0: the last one did
	since    time.Time     // when the first of them ended
}

// Note takes in a call that has ended now. work is how long the server may have worked on it and on others of this process.
func (t *RoundTrip) Note(took, work time.Duration, now time.Time) {
	least := took - work
	switch {
	case t.estimate == 0 || took < t.estimate:
		t.estimate = took
	case least > t.estimate:
		if t.least == 0 { // whatever the time since the last call: a rest proves nothing
			t.least, t.since = least, now
		}
		t.least = min(t.least, least)
		if now.Sub(t.since) < follows {
			return
		}
		t.estimate = t.least
	}
	t.least = 0
}

// Get is the round trip; 0 if it is not known.
func (t *RoundTrip) Get() time.Duration { return t.estimate }

// Flights is how many flights keep the server busy, or leave it at its ease.
func (t *RoundTrip) InFlight() int {
	easy := min(int(t.Get()/sparing), EasyInFlight)
	return min(max(int(t.Get()/FullBatch), easy, MinInFlight), maxInFlight)
}

// Far reports whether the server is so far away that it takes more than MinFlights to keep it busy.
func (t *RoundTrip) HighLatency() bool { return t.Get() >= (MinInFlight+1)*FullBatch }

// Room is how many flights client has connections for, of each server: three quarters of its pool, for others use it too.
func MaxInFlight(client redis.UniversalClient) int {
	size := 0
	switch c := client.(type) {
	case *redis.Client:
		size = c.Options().PoolSize
	case *redis.ClusterClient:
		size = c.Options().PoolSize // of each node
	case *redis.Ring:
		size = c.Options().PoolSize // of each shard
	}
	if size == 0 { // a Ring whose shards have go-redis' default
		size = usualPool
	}
	return max(min(size, MinInFlight), size-size/4)
}
