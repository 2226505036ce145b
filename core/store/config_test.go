package store

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// checkClock checks that the clock agrees with time.Now, but for the time that
// passes between the two reads.
func checkClock(t *testing.T, c *clock) {
	t.Helper()
	before := time.Now().UnixMicro()
	now := c.now()
	// clock reads two clocks one after the other, so their offset is short by
	// the time in between.
	if after := time.Now().UnixMicro(); now > after || now < before-1_000_000 {
		t.Errorf("the clock returns %d, but time.Now returned %d before and %d after", now, before, after)
	}
}

// A synctest bubble has a time of its own. A store made outside can be used
// inside a bubble, and outside at once.
func TestClockAgreesWithTimeNow(t *testing.T) {
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
						t.Fatalf("in a bubble the clock returns %d, want %d", got, want)
					}
				}
				time.Sleep(100 * time.Microsecond)
			}
		})
	}
	close(stop)
	outside.Wait()
}
