package rtt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const ms = time.Millisecond

// noted is a round trip that calls have measured, one after another.
type noted struct {
	*testing.T
	RoundTrip

	at time.Time
}

// note adds a call that ends so much later, and checks the estimate after it.
func (n *noted) note(after, took, work, want time.Duration, rule string) {
	n.Helper()
	n.at = n.at.Add(after)
	n.Note(took, work, n.at)
	assert.Equal(n, want, n.Get(), rule)
}

func TestRoundTripFallsWithTheFirstShorterCall(t *testing.T) {
	n := &noted{T: t, at: time.Now()}
	assert.Zero(t, n.Get())
	n.note(0, 90*ms, 0, 90*ms, "the first call is the estimate")
	n.note(ms, 35*ms, 0, 35*ms, "a shorter call lowers it at once")
	n.note(time.Hour, ms, ms, ms, "whatever the server worked meanwhile")
}

func TestRoundTripRisesWhenNoCallConfirmsIt(t *testing.T) {
	for _, to := range []time.Duration{35 * ms, 60 * ms, 90 * ms, 200 * ms} {
		n := &noted{T: t, at: time.Now()}
		n.note(0, ms, 0, ms, "the first call is the estimate")
		n.note(time.Hour, to, 0, ms, "a first call after a rest proves nothing")
		for passed := to; passed < raiseAfter; passed += to {
			n.note(to, to, 0, ms, "a pause does not change the round trip")
		}
		n.note(to, to, 0, to, "the estimate rises to the shortest call since")
		if to >= raiseAfter {
			t.Errorf("premise: %v is a pause", to)
		}
	}
}

func TestRoundTripForgetsAPause(t *testing.T) {
	n := &noted{T: t, at: time.Now()}
	n.note(0, ms, 0, ms, "the first call is the estimate")
	n.note(200*ms, 200*ms, 0, ms, "a server that paused")
	n.note(ms, ms, 0, ms, "and answers")
	n.note(200*ms, 200*ms, 0, ms, "a pause again")
	n.note(240*ms, 40*ms, 0, ms, "calls since the last short one count")
	n.note(20*ms, 40*ms, 0, 40*ms, "and no others")
}

// The server works on what this process has sent. That takes time, however
// short the round trip is.
func TestWorkOfTheServerIsNoRoundTrip(t *testing.T) {
	n := &noted{T: t, at: time.Now()}
	n.note(0, ms, 0, ms, "the first call is the estimate")
	for range 100 {
		n.note(20*ms, 20*ms, 4*BusyBatch, ms, "the work explains the time")
	}
	for range 8 {
		n.note(35*ms, 60*ms, 4*BusyBatch, ms, "not yet")
	}
	n.note(35*ms, 60*ms, 4*BusyBatch, 36*ms, "what the work does not explain is round trip")
}
