package measure

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// stride is how far apart goroutines start in the sequence of operations, so that they rarely meet on
// the same key. It is prime: whatever the number of keys, they spread over all.
const stride = 7919

// maxTimed bounds how many calls of a goroutine are timed each.
const maxTimed = 1 << 20

// load is what one round did.
type load struct {
	ops     int64
	elapsed time.Duration
	calls   []float64 // ns of each call, if they are timed
	err     error
}

// run has goroutines work in a closed loop, each on its next operation as soon as the last is done.
func run(worker func() func(int) error, goroutines int, isTimed bool, d time.Duration, start int) load {
	var stop atomic.Bool
	ops := make([]int64, goroutines)
	errs := make([]error, goroutines)
	calls := make([][]float64, goroutines)

	ready := make(chan struct{})
	var all sync.WaitGroup
	for g := range goroutines {
		op := worker()
		all.Go(func() {
			<-ready
			first := start + g*stride
			if isTimed {
				calls[g], ops[g], errs[g] = timed(op, first, &stop)
				return
			}
			ops[g], errs[g] = counted(op, first, &stop)
		})
	}
	began := time.Now()
	close(ready)
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	all.Wait()
	timer.Stop()
	l := load{elapsed: time.Since(began), calls: slices.Concat(calls...), err: errors.Join(errs...)}
	for _, n := range ops {
		l.ops += n
	}
	return l
}

// counted works until stop.
func counted(op func(int) error, first int, stop *atomic.Bool) (int64, error) {
	n := 0
	for ; !stop.Load(); n++ {
		if err := op(first + n); err != nil {
			stop.Store(true)
			return int64(n), err
		}
	}
	return int64(n), nil
}

// timed is counted with a look at the clock around slow calls: those of a microsecond or more on
// average. Quick ones would be drowned by it.
func timed(op func(int) error, first int, stop *atomic.Bool) ([]float64, int64, error) {
	const probe = 100
	n := 0
	for began := time.Now(); time.Since(began) < probe*time.Microsecond; n++ {
		if n == probe {
			more, err := counted(op, first+n, stop)
			return nil, int64(n) + more, err
		}
		if err := op(first + n); err != nil {
			stop.Store(true)
			return nil, int64(n), err
		}
	}
	calls := make([]float64, 0, 1<<10)
	for last := time.Now(); !stop.Load(); n++ {
		if err := op(first + n); err != nil {
			stop.Store(true)
			return nil, int64(n), err
		}
		now := time.Now()
		if len(calls) < maxTimed {
			calls = append(calls, float64(now.Sub(last)))
		}
		last = now
	}
	return calls, int64(n), nil
}
