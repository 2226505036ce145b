package distance

import (
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
)

const ms = time.Millisecond

func TestRoundTripIsTheFastestRecentOne(t *testing.T) {
	var trip RoundTrip
	at := time.Now()
	note := func(after, took, want time.Duration, rule string) {
		t.Helper()
		at = at.Add(after)
		trip.Note(took, at)
		assert.Equal(t, want, trip.Get(), rule)
	}
	assert.Zero(t, trip.Get())
	note(0, 30*ms, 30*ms, "the first")
	note(time.Second, 20*ms, 20*ms, "a faster one")
	note(time.Second, 50*ms, 20*ms, "a slower one")
	note(tripMemory, 40*ms, 20*ms, "it is remembered for a while")
	note(tripMemory+time.Second, 40*ms, 40*ms, "and forgotten then")
	note(3*tripMemory, 60*ms, 60*ms, "all is old after a pause")
}

func TestStoreLeavesConnectionsInThePool(t *testing.T) {
	for _, c := range []struct {
		client redis.UniversalClient
		want   int
	}{
		{redis.NewClient(&redis.Options{PoolSize: 1}), 1},
		{redis.NewClient(&redis.Options{PoolSize: 3}), 3},
		{redis.NewClient(&redis.Options{PoolSize: 5}), 4},
		{redis.NewClient(&redis.Options{PoolSize: 20}), 15},
		{redis.NewClusterClient(&redis.ClusterOptions{PoolSize: 12}), 9},
		{redis.NewRing(&redis.RingOptions{PoolSize: 12}), 9},
		{redis.NewRing(&redis.RingOptions{}), 8},
		{struct{ redis.UniversalClient }{}, 8},
	} {
		assert.Equal(t, c.want, Room(c.client), "%T", c.client)
		if closer, ok := c.client.(io.Closer); ok && c.client != (struct{ redis.UniversalClient }{}) {
			_ = closer.Close()
		}
	}
	assert.GreaterOrEqual(t, Room(redis.NewClusterClient(&redis.ClusterOptions{})), MinFlights, "the default is known")
}
