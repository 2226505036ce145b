package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func sum(b bins) (c counts) {
	for _, one := range b {
		c = c.plus(one)
	}
	return c
}

func TestInAFloodNoRequestIsLostFromTheCounts(t *testing.T) {
	var h history
	h.clear()
	now := millis(time.Now())
	for i := range 10 * told {
		r := request{At: now, Status: 429, Key: "k"}
		if i%20 == 0 {
			r.Status, r.Allowed = 200, true
		}
		h.add(r, true)
	}
	h.add(request{At: now, Status: 503}, true)
	fresh, dropped := h.news()
	require.Len(t, fresh, told)
	var named counts
	for _, r := range fresh {
		named = named.with(&r)
	}
	require.EqualValues(t, 10*told/20, named.Allowed, "those that passed are all named")
	require.EqualValues(t, 1, named.Error)
	require.Equal(t, h.sums, named.plus(sum(dropped)), "named and counted together")
	_, past := h.latest()
	require.Equal(t, h.sums, sum(past), "a page that comes later")
	fresh, dropped = h.news()
	require.Empty(t, fresh)
	require.Empty(t, dropped)
}

func TestIDsNeverRestart(t *testing.T) {
	var h history
	h.clear()
	h.add(request{}, true)
	before, _ := h.news()
	h.clear()
	h.add(request{}, true)
	after, _ := h.news()
	require.Greater(t, after[0].ID, before[0].ID)
}

func TestDeniedKeysComeFirst(t *testing.T) {
	var h history
	h.clear()
	h.add(request{Key: "a", User: "a", Status: 200, Allowed: true}, true)
	h.add(request{Key: "z", User: "z", Status: 429}, true)
	h.add(request{Key: "scenario", Status: 429}, false)
	keys, owners := h.recent()
	require.Equal(t, []string{"z", "a"}, keys)
	require.Equal(t, []string{"z", "a"}, owners)
}
