package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

var scenarios = []scenario{
	{id: "burst", title: "Burst, then steady", run: burstThenSteady,
		expect: "Capacity 10, 5 tokens a second. Of 15 requests at once 10 pass and 5 are denied; then 8 at 4 a second all pass."},
	{id: "users", title: "Two users", run: twoUsers,
		expect: "Each user has a bucket of 10. Ann floods hers; Bob's three requests pass all the same."},
	{id: "flood", title: "Sustained flood", run: flood,
		expect: "Capacity 20, 50 tokens a second, flooded for 3 seconds: what is admitted is the capacity and what refilled, not one more."},
	{id: "modes", title: "Stepped against continuous", run: bothModes,
		expect: "10 tokens every 2 seconds. Continuous brings one every 200 ms, Stepped all 10 at once when the interval is over."},
	{id: "outage", title: "Redis stopped and back", run: outage, needsServer: true,
		expect: "A Redis of the demo's own is killed and started again. Every request is answered: this process limits alone meanwhile, and goes back to Redis by itself."},
}

// failed is the verdict on a scenario that could not be set up.
func failed(err error) verdict { return verdict{Text: "It could not run: " + err.Error() + "."} }

func continuous(capacity int64, perSecond float64) settings {
	s := defaults
	s.Capacity, s.Rate = capacity, perSecond
	return s
}

func burstThenSteady(ctx context.Context, r *rehearsal) verdict {
	s := continuous(10, 5)
	if err := r.set(ctx, s); err != nil {
		return failed(err)
	}
	began := time.Now()
	burst := r.burst(ctx, "ann", 15)
	most := int(s.limit().MaxIn(time.Since(began)))
	r.say("a request every 250 ms")
	steady := 0
	time.Sleep(250 * time.Millisecond)
	steadily(ctx, 250*time.Millisecond, func(n int) bool {
		if n < 8 && r.ask(ctx, "ann").status == http.StatusOK {
			steady++
		}
		return n < 7
	})
	return verdict{
		burst >= 10 && burst <= most && burst < 15 && steady == 8,
		fmt.Sprintf("%d of 15 passed at once, %d were denied; then %d of 8 passed at 4 a second.", burst, 15-burst, steady),
	}
}

func twoUsers(ctx context.Context, r *rehearsal) verdict {
	s := continuous(10, 1)
	s.Key = "user"
	if err := r.set(ctx, s); err != nil {
		return failed(err)
	}
	began := time.Now()
	var ann int
	var wg sync.WaitGroup
	wg.Go(func() { ann = r.burst(ctx, "ann", 60) })
	bob := 0
	steadily(ctx, 100*time.Millisecond, func(n int) bool {
		if r.ask(ctx, "bob").status == http.StatusOK {
			bob++
		}
		return n < 2
	})
	wg.Wait()
	most := int(s.limit().MaxIn(time.Since(began)))
	return verdict{
		bob == 3 && ann >= 10 && ann <= most,
		fmt.Sprintf("%d of Ann's 60 passed, and %d of Bob's 3.", ann, bob),
	}
}

func flood(ctx context.Context, r *rehearsal) verdict {
	const workers, length = 16, 3 * time.Second
	s := continuous(20, 50)
	if err := r.set(ctx, s); err != nil {
		return failed(err)
	}
	var admitted, asked atomic.Int64
	began := time.Now()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for time.Since(began) < length && ctx.Err() == nil {
				asked.Add(1)
				if r.ask(ctx, "ann").status == http.StatusOK {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	got, most := admitted.Load(), s.limit().MaxIn(took)
	least := s.limit().MaxIn(length) * 95 / 100 // the last tokens may come after the last request
	return verdict{
		got <= most && got >= least,
		fmt.Sprintf("%d of %d passed in %.2f s: 20 and 50 × %.2f are %d.", got, asked.Load(), took.Seconds(), took.Seconds(), most),
	}
}

func bothModes(ctx context.Context, r *rehearsal) verdict {
	spread := map[string]time.Duration{}
	for _, mode := range []string{"continuous", "stepped"} {
		s := continuous(10, 10)
		s.Interval, s.Mode = 2000, mode
		if err := r.set(ctx, s); err != nil {
			return failed(err)
		}
		r.say("draining a " + mode + " bucket, then asking until 10 tokens came")
		r.burst(ctx, "ann", 12)
		var first, last time.Time
		tokens, began := 0, time.Now()
		steadily(ctx, 20*time.Millisecond, func(int) bool {
			if r.ask(ctx, "ann").status == http.StatusOK {
				if last = time.Now(); tokens == 0 {
					first = last
				}
				tokens++
			}
			return tokens < 10 && time.Since(began) < 5*time.Second
		})
		if tokens < 10 {
			return verdict{Text: fmt.Sprintf("Only %d tokens came to the %s bucket in 5 s.", tokens, mode)}
		}
		spread[mode] = last.Sub(first)
	}
	return verdict{
		spread["continuous"] > 1500*time.Millisecond && spread["stepped"] < 1000*time.Millisecond,
		fmt.Sprintf("10 tokens were used within %.2f s of the first when continuous, %.2f s when stepped.", spread["continuous"].Seconds(), spread["stepped"].Seconds()),
	}
}
