package core

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The clock tells what time.Now does, less at most what passes while it is read.
func checkClock(t *testing.T, c *clock) {
	t.Helper()
	before := time.Now().UnixMicro()
	now := c.now()
	// Two clocks are read one after the other: their difference may be short by what came between.
	if after := time.Now().UnixMicro(); now > after || now < before-1_000_000 {
		t.Errorf("the clock tells %d, time.Now %d before and %d after", now, before, after)
	}
}

func TestClockAgreesWithTimeNow(t *testing.T) {
	var c clock
	for range 10 {
		checkClock(t, &c)
		checkClock(t, &c)
		time.Sleep(300 * time.Microsecond)
	}
}

// A bubble has a time of its own, and a store made outside may be used inside, and outside at once.
func TestClockAgreesWithTimeNowInSynctestBubbles(t *testing.T) {
	var c clock
	var outside sync.WaitGroup
	stop := make(chan struct{})
	outside.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				checkClock(t, &c)
			}
		}
	})
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			for range 10 {
				for range 3 {
					if got, want := c.now(), time.Now().UnixMicro(); got != want {
						t.Fatalf("in a bubble the clock tells %d, want %d", got, want)
					}
				}
				time.Sleep(100 * time.Microsecond)
			}
		})
	}
	close(stop)
	outside.Wait()
}
