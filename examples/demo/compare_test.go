package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAllModesSeeTheSameTraffic(t *testing.T) {
	d := serve(t)
	// An interval of 365 days hardly ends between two requests. An hour does: an Aligned bucket is full again then.
	status, text := call(t, d, http.MethodPost, "/api/settings", changed(t, map[string]any{"capacity": 3, "rate": 3, "interval_ms": 365 * 24 * 3600e3}))
	require.Equal(t, http.StatusOK, status, text)
	for range 4 {
		call(t, d, http.MethodGet, "/chi/limited", nil)
	}
	d.tellRequests()
	list, _ := d.history.latest()
	require.Equal(t, []bool{true, true, true}, list[0].Modes)
	require.Equal(t, []bool{false, false, false}, list[3].Modes)
	modes := d.states().Modes
	require.Len(t, modes, 3)
	for i, name := range []string{"continuous", "stepped", "aligned"} {
		require.Equal(t, name, modes[i].Limits[0].Mode)
		require.Less(t, modes[i].Limits[0].Tokens, 1.0, name)
	}
}

func TestAMonthIsComparedToo(t *testing.T) {
	d := serve(t)
	call(t, d, http.MethodPost, "/api/settings", changed(t, map[string]any{"capacity": 3, "rate": 3, "interval_ms": month, "mode": "aligned"}))
	require.Len(t, d.states().Modes, 3)
	call(t, d, http.MethodGet, "/chi/limited", nil)
	l := d.states().List[0].Limits[0]
	require.InDelta(t, 2, l.Tokens, 0)
	require.Equal(t, l.Full, l.Next, "the next month fills it")
	require.Less(t, l.Next, 31*24*float64(time.Hour.Milliseconds())+1)
}
