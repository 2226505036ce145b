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

// Nothing is left of a limit of any size, and it is reset within two seconds:
// then a request goes within a minute, and of a large limit within that time,
// because others may have used what was there.
// A slower rate, which refusals taught, stays.
func TestNothingLeftOfALimitThatIsResetSoon(t *testing.T) {
	for _, limit := range []int64{1, 50, 60, 70, 10_000, 1 << 53} {
		var p pace
		now, most := time.Unix(1_000_000_000, 0), time.Minute
		if limit >= 1800 {
			most = resolution
		}
		for range 10 {
			wait := p.left(now)
			if wait > most {
				t.Fatalf("limit %d: the next request waits for %v, want %v at most", limit, wait, most)
			}
			now = now.Add(wait)
			p.take(1, now)
			p.heard([]advice.Quota{{Unit: advice.Requests, Limit: limit, Reset: time.Second, Whole: true}}, nil, 0, now)
		}
		p.ceiling, p.guided, p.since, p.tokens = 0.01, false, now, 0
		if rate := p.rate(now); rate > 0.01 {
			t.Errorf("limit %d: %v requests per second, want no more than the 0.01 that refusals taught", limit, rate)
		}
	}
}

// A refusal halves a rate that follows what is left.
func TestARefusalHalvesTheRate(t *testing.T) {
	for _, left := range []int64{100, 40, 10} {
		var p pace
		now := time.Unix(1_000_000_000, 0)
		for _, n := range []int64{100, left} {
			p.take(1, now)
			p.heard([]advice.Quota{{Unit: advice.Requests, Limit: 100, Left: n, Reset: time.Second, Whole: true}}, nil, 0, now)
		}
		before := p.rate(now)
		p.refused(time.Second, now)
		if rate := p.rate(now); rate < 0.49*before || rate > 0.51*before {
			t.Errorf("%d of 100 left: %v requests per second after a refusal, want half of %v", left, rate, before)
		}
	}
}

// An answer that says nothing of limits, such as an error of a proxy, changes no
// rate. If no answer tells of one any more, there is no bound.
func TestAnswersWithoutFieldsChangeNoRate(t *testing.T) {
	for reset, left := range map[time.Duration]int64{time.Second: 5, time.Minute: 30} {
		var p pace
		now := time.Unix(1_000_000_000, 0)
		quota := []advice.Quota{{Unit: advice.Requests, Limit: 50, Left: left, Reset: reset, Whole: true}}
		p.take(1, now)
		p.heard(quota, nil, 0, now)
		want := p.rate(now)
		for range silence {
			now = now.Add(reset / 20)
			p.heard(nil, nil, 0, now)
			if rate := p.rate(now); rate != want {
				t.Errorf("reset after %v: %v requests per second after an answer without fields, want %v as before", reset, rate, want)
			}
		}
		p.heard(nil, nil, 0, now)
		if rate := p.rate(now); !math.IsInf(rate, 1) {
			t.Errorf("reset after %v: %v requests per second after %d answers without fields, want no bound", reset, rate, silence+1)
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
