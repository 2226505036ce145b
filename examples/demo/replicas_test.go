package main

import (
	"math"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// levels are the first limits' tokens, by replica.
func levels(d *demo) map[string]float64 {
	list := map[string]float64{}
	for _, b := range d.states().List {
		list[b.Replica] = b.Limits[0].Tokens
	}
	return list
}

func TestReplicasShareABucketDriftApartAndMeetAgain(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server on the PATH")
	}
	d := serve(t)
	post := func(body string) {
		t.Helper()
		status, text := call(t, d, http.MethodPost, "/api/replicas", []byte(body))
		require.Equal(t, http.StatusOK, status, text)
	}
	ask := func(n int) (allowed int) {
		for range n {
			if status, _ := call(t, d, http.MethodGet, "/gin/limited", nil); status == http.StatusOK {
				allowed++
			}
		}
		return allowed
	}
	call(t, d, http.MethodPost, "/api/settings", changed(t, map[string]any{"interval_ms": 3600e3}))
	post(`{"on": true}`)
	require.Equal(t, 4, ask(4))
	shared := levels(d)
	require.Len(t, shared, 2)
	require.InDelta(t, 6, shared["A"], 0.1, "what A sees of the bucket both use")
	require.InDelta(t, 6, shared["B"], 0.1, "what B sees of it")

	post(`{"redis": false}`)
	require.Equal(t, clusterState{Available: true, On: true}, d.cluster.state())
	require.Equal(t, 20, ask(30), "each of the two allows its own 10, so together they allow twice the limit")
	require.True(t, d.states().Store.Alone)

	post(`{"redis": true}`)
	require.Eventually(t, func() bool {
		shared := levels(d)
		return !d.states().Store.Alone && math.Abs(shared["A"]-6) < 0.1 && math.Abs(shared["B"]-6) < 0.1
	}, time.Minute, 20*time.Millisecond, "both are back on Redis, at the level that it has kept")

	post(`{"on": false}`)
	require.Equal(t, clusterState{Available: true}, d.cluster.state())
	require.Contains(t, levels(d), "", "one replica")
	require.Equal(t, 1, ask(1), "in the store of before")
}

func TestReplicasWantAKnownOrder(t *testing.T) {
	d := serve(t)
	for _, body := range []string{"", "{}", "7"} {
		status, _ := call(t, d, http.MethodPost, "/api/replicas", []byte(body))
		require.Equal(t, http.StatusUnprocessableEntity, status, body)
	}
}
