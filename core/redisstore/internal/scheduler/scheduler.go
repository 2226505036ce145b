// Package scheduler finds out whether this process keeps up with its
// goroutines. If it does not, an answer of Redis may be in time and only its
// reader late.
package scheduler

import (
	"runtime"
	"runtime/metrics"
	"time"
)

// FastTurn is the least time that KeepUp takes. In a process that keeps up, a
// ready goroutine runs within this time.
const FastTurn = time.Millisecond

const (
	// networkPoll is how long a process that does not keep up may take to look
	// for data from the network.
	networkPoll = 10 * time.Millisecond
	// maxBacklog is how many goroutines may be ready to run in a process that
	// keeps up.
	maxBacklog = 16
	// fastTurns is how many fast turns in a row show that a process keeps up.
	fastTurns = 3
	// maxPerProcessor: with more goroutines a processor, a turn of all may take
	// so long that it matters for a store's timeout.
	maxPerProcessor = 500
)

// KeepUp lets other goroutines run: those that are ready, and those whose
// answers have come. Among thousands of goroutines, or after a pause of the
// whole process, these are late although the server was not. KeepUp returns
// when the process keeps up, or after the time longest. If a turn of the
// scheduler was slow, it waits for several fast ones in a row, because reading
// an answer takes several turns.
func KeepUp(longest time.Duration) {
	began, inRow, enough, pause := time.Now(), 0, 1, FastTurn
	if Crowded() {
		enough = fastTurns
	}
	for {
		turn := time.Now()
		time.Sleep(pause) // an idle processor polls the network
		runtime.Gosched()
		inRow++
		if took := time.Since(turn); took > pause+FastTurn || backlog() > maxBacklog {
			inRow, enough, pause = 0, fastTurns, networkPoll
		} else {
			pause = FastTurn
		}
		if inRow >= enough || time.Since(began) >= longest {
			return
		}
	}
}

// backlog is how many goroutines are ready and not running.
func backlog() int {
	runnable := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	metrics.Read(runnable)
	return int(runnable[0].Value.Uint64())
}

// Crowded reports whether this process has so many goroutines that a ready one
// may wait longer than a call takes. An answer that seems late may then have
// been in time, and only its reader late.
func Crowded() bool { return runtime.NumGoroutine() > maxGoroutines }

var maxGoroutines = maxPerProcessor * runtime.GOMAXPROCS(0)
