package pace_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

// server takes a round trip, and a time for each item, and twice that while it
// is busy with others.
type server struct {
	roundTrip, item, queue time.Duration
	largest                int // piece
}

// work does n items at a pace, and returns how long that took.
func (s *server) work(t *testing.T, p *pace.Pace, n int) time.Duration {
	t.Helper()
	began := time.Now()
	for n > 0 {
		size := min(p.Next(), n)
		s.largest = max(s.largest, size)
		took := s.roundTrip + s.queue + time.Duration(size)*s.item
		time.Sleep(took)
		require.NoError(t, p.Wait(t.Context(), size, took))
		n -= size
	}
	return time.Since(began)
}

const us = time.Microsecond

// A piece keeps a server busy for about a round trip, however fast the rate, so
// nobody waits for longer than two.
func TestAPieceIsAboutARoundTrip(t *testing.T) {
	for _, roundTrip := range []time.Duration{100 * us, 500 * us, 2 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := server{roundTrip: roundTrip, item: 5 * us}
			s.work(t, pace.New(1_000_000, 4, 10_000), 100_000)
			longest := time.Duration(s.largest) * s.item
			assert.Greater(t, longest, roundTrip/2, "it is not smaller than it must be")
			assert.Less(t, longest, roundTrip*3/2)
		})
	}
}

// The rate holds, and what a slow server cost is not caught up.
func TestTheRateHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := server{roundTrip: 100 * us, item: us}, pace.New(10_000, 4, 64)
		assert.InDelta(t, 1, s.work(t, p, 10_000).Seconds(), 0.05)
		time.Sleep(5 * time.Second) // nobody asks
		assert.InDelta(t, 1, s.work(t, p, 10_000).Seconds(), 0.05)
		s.queue = 5 * time.Second
		s.work(t, p, 4)
		s.queue = 0
		assert.Greater(t, s.work(t, p, 10_000).Seconds(), 0.95)
	})
	synctest.Test(t, func(t *testing.T) {
		s, p := server{roundTrip: 100 * us}, pace.New(1, 4, 64)
		assert.InDelta(t, 4, s.work(t, p, 4).Seconds(), 0.05, "1 a second")
		assert.Equal(t, 1, s.largest)
	})
}

// A server that is busy with others gets small pieces, and as much rest as
// work. When they have gone, pieces grow again.
func TestABusyServerGetsLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := server{roundTrip: 100 * us, item: us}, pace.New(0xfffffff, 4, 64)
		s.work(t, p, 10_000)
		assert.Equal(t, 64, s.largest)
		s.queue = 10 * time.Millisecond
		s.work(t, p, 500) // in which pieces shrink
		s.largest = 0
		took := s.work(t, p, 100)
		assert.Equal(t, 4, s.largest)
		assert.Greater(t, took, 25*2*s.queue, "25 pieces, each with a pause as long as itself")
		s.queue = 0
		s.work(t, p, 10_000)
		assert.Equal(t, 64, s.largest)
	})
}

// Another server, or another way to it, is no busy server: after a while its
// own answer times count.
func TestTheFastestPieceIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := server{roundTrip: 100 * us, item: us}, pace.New(1_000_000, 4, 64)
		s.work(t, p, 1000)
		s.roundTrip = 20 * time.Millisecond
		s.work(t, p, 2000)
		s.largest = 0
		s.work(t, p, 2000)
		assert.Equal(t, 64, s.largest)
	})
}

func TestWithoutARateThereAreNoPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := server{roundTrip: 100 * us, queue: time.Second}, pace.New(0, 4, 64)
		assert.Equal(t, 2*(time.Second+100*us), s.work(t, p, 128))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.Wait(ctx, 1, 0), context.Canceled)
		require.ErrorIs(t, pace.New(1, 1, 1).Wait(ctx, 1, 0), context.Canceled)
	})
}

// Each notes every item that was begun, in order, also after an error.
func TestEachNotesWhatWasBegun(t *testing.T) {
	failure := errors.New("no")
	items := func(n int, end error) func(func(int, error) bool) {
		return func(yield func(int, error) bool) {
			for i := range n {
				if !yield(i, nil) {
					return
				}
			}
			if end != nil {
				yield(0, end)
			}
		}
	}
	for name, c := range map[string]struct {
		n, bad int // bad fails
		end    error
		stop   bool // ctx ends with the first
	}{
		"all": {n: 1000, bad: -1}, "none": {bad: -1}, "one fails": {n: 1000, bad: 100}, "the list fails": {n: 100, bad: -1, end: failure}, "it is interrupted": {n: 1000, bad: -1, stop: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(map[int]bool)
			var noted []int
			err := pace.Each(ctx, 10_000, items(c.n, c.end), func(i int) (int, error) {
				if i == c.bad {
					return i, failure
				}
				return i, nil
			}, func(i, result int, err error) error {
				if c.stop {
					cancel()
				}
				assert.Equal(t, i, result)
				done[i] = true
				noted = append(noted, i)
				return err
			})
			for i, n := range noted {
				require.Equal(t, i, n, "%s: in order, each once", name)
			}
			switch {
			case c.stop:
				require.ErrorIs(t, err, context.Canceled)
				assert.Len(t, noted, 8, "the first group")
			case c.end != nil, c.bad >= 0:
				require.ErrorIs(t, err, failure, name)
			default:
				require.NoError(t, err, name)
				assert.Len(t, noted, c.n)
			}
			if c.bad >= 0 {
				assert.GreaterOrEqual(t, len(noted), c.bad)
				assert.Less(t, len(noted), c.bad+64)
			}
		})
	}
}
