package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPagesForetellHowABucketRefills(t *testing.T) {
	for _, mode := range []string{"continuous", "stepped"} {
		now := bucketState{Key: "k", At: 1e12, Limits: []limitState{{Mode: mode, Capacity: 10, Rate: 2, Interval: 1000, Tokens: 3, Next: 500}}}
		with := func(tokens float64, after float64) bucketState {
			b := now
			b.At += after
			b.Limits = []limitState{now.Limits[0]}
			b.Limits[0].Tokens = tokens
			return b
		}
		one := map[string]float64{"continuous": 4, "stepped": 5}[mode]
		before := &states{List: []bucketState{now}}
		require.True(t, before.foretell(states{List: []bucketState{with(3, 0)}}), mode)
		require.True(t, before.foretell(states{List: []bucketState{with(one, 510)}}), mode)
		require.True(t, before.foretell(states{List: []bucketState{with(10, 1e6)}}), "full")
		require.False(t, before.foretell(states{List: []bucketState{with(one-1, 700)}}), "someone took a token")
		require.False(t, before.foretell(states{}), "it went")
	}
}

// While nothing happens nothing is told. What is told of a request, of its level and of the sums, is told once.
func TestNothingIsToldWhileNothingHappens(t *testing.T) {
	d := serve(t)
	events := listen(t, d)
	next(t, events, "hello")
	next(t, events, "state")
	for range 3 {
		call(t, d, http.MethodGet, "/gin/limited", nil)
		next(t, events, "requests")
		next(t, events, "metrics")
	}
	for len(events) > 0 {
		<-events
	}
	before := d.hub.latest()
	for range 20 { // as many looks as in five seconds
		d.tellRequests()
		d.tellStates(false)
	}
	require.LessOrEqual(t, d.hub.latest(), before+1, "one event may be of the last request")
}
