package redisstore

import (
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// minFlights are under way at once however near the server is: one is decided there while others are
	// on their way, or in the hands of this process.
	minFlights = 4
	// maxFlights are under way at once however far it is.
	maxFlights = 32
	// fullBatch is what a server takes for a batch of maxBatch, on a slow machine. A round trip that has
	// room for n of them needs n flights to keep the server busy.
	fullBatch = 2 * time.Millisecond
	// tripMemory is for how long, and up to twice that, the shortest flight is remembered. It is long, so
	// that a server that is near, but busy, does not seem far: more flights would make it busier.
	tripMemory = 10 * time.Second
	// usualPool is the PoolSize of a client that does not tell it.
	usualPool = 10
)

// roundTrip is the way to the server and back, as the shortest flights tell it.
type roundTrip struct {
	shortest, before time.Duration // since the instant below, and before; 0 is unknown
	since            time.Time
}

// note tells of a flight that has ended now.
func (t *roundTrip) note(took time.Duration, now time.Time) {
	switch {
	case now.Sub(t.since) > 2*tripMemory:
		t.before, t.shortest, t.since = 0, took, now
	case now.Sub(t.since) > tripMemory:
		t.before, t.shortest, t.since = t.shortest, took, now
	default:
		t.shortest = min(t.shortest, took)
	}
}

// get is the round trip; 0 is unknown.
func (t *roundTrip) get() time.Duration {
	if t.before > 0 {
		return min(t.shortest, t.before)
	}
	return t.shortest
}

// flights is how many flights keep the server busy.
func (t *roundTrip) flights() int {
	return min(max(int(t.get()/fullBatch), minFlights), maxFlights)
}

// flightRoom is how many flights client has connections for: all but a quarter, since others use them too.
func flightRoom(client redis.UniversalClient) int {
	size := 0
	switch c := client.(type) {
	case *redis.Client:
		size = c.Options().PoolSize
	case *redis.ClusterClient:
		size = c.Options().PoolSize // of each node
	case *redis.Ring:
		size = c.Options().PoolSize // of each shard
	}
	if size == 0 { // a Ring has that where its shards have go-redis' default
		size = usualPool
	}
	return max(min(size, minFlights), size-size/4)
}
