package outgoing

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/internal/advice"
)

// Whatever a server says, in whatever order, the pace is a number, and the next
// request goes within the longest pause.
func TestThePaceIsBounded(t *testing.T) {
	numbers := []int64{0, 1, 2, 50, 1 << 31, 1 << 53, math.MaxInt64}
	times := []time.Duration{0, 1, time.Millisecond, time.Second, time.Minute, 1000 * time.Hour, math.MaxInt64}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		one := func() int64 { return numbers[r.IntN(len(numbers))] }
		span := func() time.Duration { return times[r.IntN(len(times))] }
		var p pace
		now := time.Unix(1_000_000_000, 0)
		for step := range 50 {
			switch r.IntN(5) {
			case 0:
				p.refused(span(), now)
			case 1:
				p.take(1, now)
			default:
				quota := advice.Quota{Unit: []string{advice.Requests, "tokens"}[r.IntN(2)], Limit: one(), Left: one(), Reset: span(), Whole: r.IntN(2) == 0}
				p.heard([]advice.Quota{quota}, map[string]int64{"tokens": one()}, r.IntN(10), now)
			}
			rate, wait := p.rate(now), p.left(now)
			if math.IsNaN(rate) || rate < 0 || math.IsNaN(p.tokens) || wait < 0 || wait > longestPause {
				t.Fatalf("seed %d, step %d: rate %v, tokens %v, wait %v: %+v", seed, step, rate, p.tokens, wait, p)
			}
			now = now.Add(min(span(), 24*time.Hour))
		}
	}
}

// Of those that wait the interactive ones go first, in the order of their
// arrival, and each eighth turn is a batch's.
func TestTurnsOfTheQueue(t *testing.T) {
	var q queue
	for seq := range uint64(40) {
		q.add(&waiter{seq: seq, priority: Priority(seq % 2)})
	}
	var interactive, batch []uint64
	for turn := range 20 {
		w := q.first()
		if isBatch := turn%batchShare == batchShare-1; (w.priority == Batch) != isBatch {
			t.Errorf("turn %d went to priority %d", turn, w.priority)
		}
		if w.priority == Batch {
			batch = append(batch, w.seq)
		} else {
			interactive = append(interactive, w.seq)
		}
		q.remove(w, true)
	}
	if !slices.IsSorted(interactive) || !slices.IsSorted(batch) || q.len() != 20 {
		t.Errorf("%v, %v: want the order of arrival", interactive, batch)
	}
	if q.ahead(Interactive) != len(q.waiting[Interactive]) || q.ahead(Batch) != 20 {
		t.Error("ahead counts those that go first")
	}
}
