// Package scheduler tells whether this process keeps up with its goroutines.
package scheduler

import (
	"runtime"
	"runtime/metrics"
	"time"
)

// Swift is how long KeepUp takes at least, and a turn of the scheduler at most in a process that keeps up.
const Swift = time.Millisecond

const (
	// networkPoll is how often a process that does not keep up looks for what has come from the network.
	networkPoll = 10 * time.Millisecond
	// few is how many goroutines may be ready to run in a process that keeps up.
	few = 16
	// turns is how many swift turns in a row show that a process keeps up.
	turns = 3
	// goroutines is how many goroutines of a processor may take so long for a turn that it matters beside a store's timeout.
	goroutines = 500
)

// KeepUp lets goroutines run that were ready before, and those whose answers have come: with thousands of others, or after a
// pause of the whole process, they may be late where the server was not. It returns when the process keeps up, or after so
// long. A call takes several turns of the scheduler, so where one was slow, or may have been, several must be swift.
func KeepUp(longest time.Duration) {
	began, inRow, enough, pause := time.Now(), 0, 1, Swift
	if Crowded() {
		enough = turns
	}
	for {
		turn := time.Now()
		time.Sleep(pause) // with a processor to spare the network is looked at
		runtime.Gosched()
		inRow++
		if took := time.Since(turn); took > pause+Swift || backlog() > few {
			inRow, enough, pause = 0, turns, networkPoll
		} else {
			pause = Swift
		}
		if inRow >= enough || time.Since(began) >= longest {
			return
		}
	}
}

// backlog is how many goroutines are ready and don't run.
func backlog() int {
	runnable := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	metrics.Read(runnable)
	return int(runnable[0].Value.Uint64())
}

// Crowded reports whether this process has so many goroutines that one may wait for its turn for longer than a call takes.
// Nobody can tell then whether an answer is late, or its reader.
func Crowded() bool { return runtime.NumGoroutine() > crowd }

var crowd = goroutines * runtime.GOMAXPROCS(0)
