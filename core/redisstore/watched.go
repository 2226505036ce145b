package redisstore

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// watched is a flight whose callers do not wait for go-redis. That may be stuck: it does not always stop reading when a
// context ends.
type watched struct {
	mu    sync.Mutex // guards all below
	timer *time.Timer
	calls []*call // that are not answered yet, in the order of their coming
	end   time.Time
	over  bool // landed, or given up
}

const (
	// nearly is how much earlier than its end a flight may be given up, so that it ends together with the call of a
	// caller who did not have to wait for it.
	nearly = time.Millisecond
	// swift is how long a turn of the scheduler takes at most in a process that keeps up.
	swift = time.Millisecond
	// networkPoll is how often a process that does not keep up looks for what has come from the network.
	networkPoll = 10 * time.Millisecond
	// few is how many goroutines may be ready to run in a process that keeps up.
	few = 16
	// turns is how many swift turns in a row show that a process keeps up.
	turns = 3
	// goroutines is how many goroutines of a processor may take so long for a turn that it matters beside a store's timeout.
	goroutines = 500
)

// keepUp lets goroutines run that were ready before, and those whose answers have come: with thousands of others, they
// may be late where the server was not. It returns when the process keeps up, or after so long. A call takes several turns
// of the scheduler, so where one was slow, or may have been, several must be swift.
func keepUp(longest time.Duration) {
	began, inRow, enough := time.Now(), 0, 1
	if crowded() {
		enough = turns
	}
	for {
		turn := time.Now()
		runtime.Gosched()
		if inRow++; time.Since(turn) > swift || backlog() > few {
			inRow, enough = 0, turns
		}
		if inRow >= enough || time.Since(began) >= longest {
			return
		}
		time.Sleep(networkPoll)
	}
}

// backlog is how many goroutines are ready and don't run.
func backlog() int {
	runnable := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	metrics.Read(runnable)
	return int(runnable[0].Value.Uint64())
}

// crowded reports whether this process has so many goroutines that one may wait for its turn for longer than a call takes.
// Nobody can tell then whether an answer is late, or its reader.
func crowded() bool { return runtime.NumGoroutine() > crowdHere }

var crowdHere = goroutines * runtime.GOMAXPROCS(0)

// overdue takes the calls whose time is up. It sets the timer for the next, or gives the flight up. If the flight has
// landed it does nothing.
func (w *watched) overdue(timeout time.Duration) (late []*call, givenUp bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return nil, false
	}
	n, now := 0, time.Now()
	w.over = !now.Before(w.end.Add(-nearly))
	for n < len(w.calls) && (w.over || !now.Before(w.calls[n].deadline(timeout))) {
		n++
	}
	late, w.calls = w.calls[:n], w.calls[n:]
	if !w.over {
		next := w.end
		if len(w.calls) > 0 {
			next = w.calls[0].deadline(timeout)
		}
		w.timer.Reset(next.Sub(now))
	}
	return late, w.over
}

// land takes the calls whose time is not up. It reports whether the flight was given up before.
func (w *watched) land() (rest []*call, givenUp bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	rest, w.calls = w.calls, nil
	givenUp, w.over = w.over, true
	return rest, givenUp
}
