package scheduler

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Goroutines that were ready before must have run, however many there are, but
// for those that are ready or run in a process that keeps up.
func TestKeepUpLetsOthersRun(t *testing.T) {
	var ran atomic.Int64
	var all sync.WaitGroup
	const many = 20_000
	start := make(chan struct{}) // or the first have ended before the last are there
	for range many {
		all.Go(func() {
			<-start
			for range 3 { // steps, as of a call
				runtime.Gosched()
			}
			ran.Add(1)
		})
	}
	assert.True(t, Crowded(), "so many goroutines are a crowd")
	close(start)
	KeepUp(time.Minute)
	assert.GreaterOrEqual(t, ran.Load(), int64(many-maxBacklog-runtime.GOMAXPROCS(0)), "all have run")
	all.Wait()
}

func TestKeepUpIsBounded(t *testing.T) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 100 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		})
	}
	began := time.Now()
	KeepUp(100 * time.Millisecond)
	took := time.Since(began)
	close(stop)
	all.Wait()
	assert.GreaterOrEqual(t, took, 100*time.Millisecond, "a process that does not keep up waits, but not for ever")
}
