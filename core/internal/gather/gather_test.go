package gather_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core/internal/gather"
)

// sender is a send that takes a second, and fails as often as it is told.
type sender struct {
	mu      sync.Mutex
	batches [][]int
	fails   int
	active  atomic.Int32
	overlap atomic.Bool
}

var errAway = errors.New("away")

func (s *sender) send(values []int) error {
	if s.active.Add(1) > 1 {
		s.overlap.Store(true)
	}
	defer s.active.Add(-1)
	time.Sleep(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, slices.Clone(values))
	if s.fails > 0 {
		s.fails--
		return errAway
	}
	return nil
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func TestValuesThatComeWhileACallIsUnderWayShareTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls gather.Calls[string, int]
		var s sender
		first := calls.Add("k", 0, s.send)
		synctest.Wait() // it is under way
		var later []<-chan struct{}
		for i := 1; i <= 3; i++ {
			later = append(later, calls.Add("k", i, s.send))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		assert.True(t, closed(first), "a value is done when its own call is")
		assert.False(t, closed(later[0]), "and not before")
		last := calls.Add("k", 4, s.send)
		time.Sleep(time.Second)
		synctest.Wait()
		for _, done := range later {
			assert.True(t, closed(done), "all that share a call are done with it")
		}
		<-last
		assert.Equal(t, [][]int{{0}, {1, 2, 3}, {4}}, s.batches, "each value is sent once, in the order of their coming")

		time.Sleep(time.Hour)
		<-calls.Add("k", 5, s.send)
		assert.Equal(t, []int{5}, s.batches[3], "a key that rested sends again")
		assert.False(t, s.overlap.Load(), "one call of a key is under way at a time")
	}) // which fails if a goroutine goes on
}

func TestKeysDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls gather.Calls[int, int]
		var slow, fast sender
		began := time.Now()
		stuck := calls.Add(1, 1, func(values []int) error { time.Sleep(time.Minute); return slow.send(values) })
		synctest.Wait()
		<-calls.Add(2, 2, fast.send)
		assert.Equal(t, time.Second, time.Since(began), "a key's call does not wait for another key's")
		<-stuck
		assert.Equal(t, [][]int{{1}}, slow.batches)
		assert.Equal(t, [][]int{{2}}, fast.batches)
	})
}

func TestACallHasABoundedNumberOfValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls gather.Calls[string, int]
		var s sender
		calls.Add("k", 0, s.send)
		synctest.Wait()
		var done <-chan struct{}
		for i := range 1200 {
			done = calls.Add("k", i+1, s.send)
		}
		<-done
		var sizes, all []int
		for _, b := range s.batches {
			sizes, all = append(sizes, len(b)), append(all, b...)
		}
		assert.Equal(t, []int{1, 512, 512, 176}, sizes, "a call has at most 512 values")
		assert.Len(t, all, 1201, "every value is sent")
		assert.True(t, slices.IsSorted(all), "each once, in the order of their coming")
	})
}

// A breaker may be open for half a second.
func TestACallThatFailsIsSentThreeTimes(t *testing.T) {
	for fails, want := range map[int]struct {
		sent int
		took time.Duration
	}{
		0: {1, time.Second},
		1: {2, 2*time.Second + 250*time.Millisecond},
		2: {3, 4*time.Second + 250*time.Millisecond},
		9: {3, 4*time.Second + 250*time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			var calls gather.Calls[string, int]
			s := sender{fails: fails}
			began := time.Now()
			done := calls.Add("k", 7, s.send)
			synctest.Wait()
			next := calls.Add("k", 8, s.send)
			<-done
			assert.Equal(t, want.took, time.Since(began), "%d failures: a call is sent again after 250 ms, and after a second", fails)
			require.Len(t, s.batches, want.sent, "%d failures: a call is sent at most three times", fails)
			for _, b := range s.batches {
				assert.Equal(t, []int{7}, b, "what comes meanwhile goes with the next call")
			}
			s.mu.Lock()
			s.fails = 0
			s.mu.Unlock()
			<-next
			assert.Equal(t, []int{8}, s.batches[len(s.batches)-1], "the next is sent even if the one before could not be")
		})
	}
}

// Run it with -race: values of several keys come from many goroutines, while
// calls end and goroutines with them.
func TestEveryValueIsSentOnce(t *testing.T) {
	const adders, each, keys = 16, 300, 3
	var calls gather.Calls[int, int]
	var mu sync.Mutex
	sent := make(map[int]int)
	var under [keys]atomic.Int32
	var wg sync.WaitGroup
	for a := range adders {
		wg.Go(func() {
			for i := range each {
				value := a*each + i
				key := value % keys
				done := calls.Add(key, value, func(values []int) error {
					assert.EqualValues(t, 1, under[key].Add(1), "one call of a key is under way at a time")
					defer under[key].Add(-1)
					mu.Lock()
					defer mu.Unlock()
					for _, v := range values {
						assert.Equal(t, key, v%keys, "a call has the values of one key")
						sent[v]++
					}
					return nil
				})
				<-done
				mu.Lock()
				assert.Equal(t, 1, sent[value], "a value is sent once, before its channel is closed")
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	assert.Len(t, sent, adders*each, "every value is sent")
}
