// Package distance estimates how far away a server is, and how many calls at once that takes.
package distance

import (
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// MinFlights may be under way at once however near the server is. One is decided there while others are on their
	// way, or are read by this process.
	MinFlights = 4
	// maxFlights may be under way at once however far the server is.
	maxFlights = 32
	// FullBatch is how long a server takes for a full batch, on a slow machine. If a round trip is n times as
	// long, n flights keep the server busy.
	FullBatch = 2 * time.Millisecond
	// sparing is the least time between calls, on average, that keeps a server at its ease, however small they are. While a
	// round trip has room for more of them, decisions need not wait for each other: up to EasyFlights go at once.
	sparing     = 100 * time.Microsecond
	EasyFlights = 12
	// tripMemory is how long the shortest flight is remembered, up to twice that. It is long, so a server that is near
	// but busy does not seem far: more flights would make it busier.
	tripMemory = 10 * time.Second
	// usualPool is the PoolSize that is assumed of a client that has none.
	usualPool = 10
)

// RoundTrip estimates the time to the server and back by the shortest flights.
type RoundTrip struct {
	shortest, before time.Duration // flight since the instant below, and in the period before; 0: not known
	since            time.Time
}

// Note takes in how long a flight took that has ended now.
func (t *RoundTrip) Note(took time.Duration, now time.Time) {
	switch {
	case now.Sub(t.since) > 2*tripMemory:
		t.before, t.shortest, t.since = 0, took, now
	case now.Sub(t.since) > tripMemory:
		t.before, t.shortest, t.since = t.shortest, took, now
	default:
		t.shortest = min(t.shortest, took)
	}
}

// Get is the round trip; 0 if it is not known.
func (t *RoundTrip) Get() time.Duration {
	if t.before > 0 {
		return min(t.shortest, t.before)
	}
	return t.shortest
}

// Flights is how many flights keep the server busy, or leave it at its ease.
func (t *RoundTrip) Flights() int {
	easy := min(int(t.Get()/sparing), EasyFlights)
	return min(max(int(t.Get()/FullBatch), easy, MinFlights), maxFlights)
}

// Far reports whether the server is so far away that it takes more than MinFlights to keep it busy.
func (t *RoundTrip) Far() bool { return t.Get() >= (MinFlights+1)*FullBatch }

// Room is how many flights client has connections for: three quarters of its pool, for others use it too.
func Room(client redis.UniversalClient) int {
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
	return max(min(size, MinFlights), size-size/4)
}
