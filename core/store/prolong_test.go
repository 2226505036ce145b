package store

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWorkIsProlongedThreeTimesInEachHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p prolonged
		begin := func(hold time.Duration, most int64) (end func() bool, times *atomic.Int64) {
			times = new(atomic.Int64)
			return p.Begin(hold, func() bool { return times.Add(1) < most }), times
		}
		endLong, long := begin(time.Hour, 1000)
		time.Sleep(10 * time.Minute)
		endShort, short := begin(time.Minute, 1000) // before the timer that the other has set
		_, two := begin(time.Minute, 2)
		for range 60 {
			before := short.Load()
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.InDelta(t, before+3, short.Load(), 1)
		}
		assert.InDelta(t, 3, long.Load(), 1, "each has its own hold")
		assert.EqualValues(t, 2, two.Load(), "until it says that it is over")
		assert.True(t, endLong())
		assert.True(t, endShort())
		assert.False(t, endShort(), "it has ended once")
		times := short.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, times, short.Load(), "until it ends")
		_, again := begin(time.Minute, 1000)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.InDelta(t, 3, again.Load(), 1, "after a time without work")
	})
}

func TestManyAreProlongedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p prolonged
		var now, most, times atomic.Int64
		for range 1000 {
			p.Begin(3*time.Minute, func() bool {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(10 * time.Millisecond)
				times.Add(1)
				return now.Add(-1) >= 0
			})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.EqualValues(t, 1000, times.Load())
		assert.EqualValues(t, 64, most.Load(), "calls under way at once")
	})
}
