package measure

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/pace"
)

// ErrOverrun says that more requests than allowed were under way at once: the contender can't keep up with the rate.
var ErrOverrun = errors.New("too many requests under way at once")

// Poisson returns the times of arrivals that don't know of each other, counted from the start of a round of length d,
// perSecond of them in the mean. The same seed gives the same times.
func Poisson(perSecond float64, d time.Duration, seed uint64) []time.Duration {
	random := rand.New(rand.NewPCG(seed, 0))
	var arrivals []time.Duration
	for at := 0.0; ; {
		at += random.ExpFloat64() / perSecond * float64(time.Second)
		if at >= float64(d) {
			return arrivals
		}
		arrivals = append(arrivals, time.Duration(at))
	}
}

// OpenLoop starts request i at arrivals[i], in a goroutine of its own, whether or not earlier ones are done. It returns
// the time from each arrival to its answer, in ns. That time begins when the request was due, not when it was sent, so
// a stall counts for all the requests that come meanwhile.
//
// It returns ErrOverrun, and starts no further request, once most of them are under way.
func OpenLoop(op func(i int) error, arrivals []time.Duration, most int) ([]float64, error) {
	timer, err := pace.NewTimer()
	if err != nil {
		return nil, err
	}
	defer timer.Close()
	latencies := make([]float64, len(arrivals))
	var underWay atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	for i, at := range arrivals {
		for wait := at - time.Since(began); wait > 0; wait = at - time.Since(began) {
			if err := timer.Sleep(wait); err != nil {
				return nil, err
			}
		}
		if failed.Load() != nil {
			break
		}
		if underWay.Add(1) > int64(most) {
			err := ErrOverrun
			failed.CompareAndSwap(nil, &err)
			break
		}
		all.Go(func() {
			if err := op(i); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
			latencies[i] = float64(time.Since(began) - at)
			underWay.Add(-1)
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return latencies, nil
}
