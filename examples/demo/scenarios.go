package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

var scenarios = []scenario{
	{id: "burst", title: "Burst, then steady", run: burstThenSteady,
		expect: "Capacity 10, 2 tokens a second. Of 15 requests at once 10 pass and 5 are denied; then 8 at 2 a second all pass."},
	{id: "users", title: "Two users", run: twoUsers,
		expect: "Each user has a bucket of 10, +1 a second. Ann sends 10 a second and is denied; Bob’s one a second all pass."},
	{id: "flood", title: "Sustained flood", run: flood,
		expect: "Capacity 20, 50 tokens a second, flooded for 4 seconds: what is admitted is the capacity and what refilled, not one more."},
	{id: "modes", title: "Stepped or continuous", run: bothModes,
		expect: "10 tokens every 2 seconds. Continuous brings one every 200 ms, Stepped all 10 at once when the interval is over."},
	{id: "slots", title: "Three at once", run: threeAtOnce,
		expect: "3 slots for work of 2 s, beside the bucket. Of 10 requests at once 3 work and 7 are denied; when these 3 are answered, 3 more can work."},
	{id: "outage", title: "Redis stopped and back", run: outage, needsServer: true,
		expect: "A Redis of the demo’s own is killed and started again, under 12 requests a second. Every one is answered: meanwhile this process limits alone, and denies too."},
}

func continuous(capacity int64, perSecond float64) settings {
	s := defaults
	s.Capacity, s.Rate = capacity, perSecond
	return s
}

func burstThenSteady(ctx context.Context, r *rehearsal) (verdict, error) {
	s := continuous(10, 2)
	if err := r.set(s); err != nil {
		return verdict{}, err
	}
	const asked, more = 15, 8
	burst := r.burst(ctx, "ann", asked)
	passed, most := burst.passed(), burst.most(s.limit())
	r.say(fmt.Sprintf("%d passed, %d denied", passed, asked-passed))
	pause(ctx, time.Second)
	r.say("now a request every 500 ms")
	steady := 0
	steadily(ctx, 500*time.Millisecond, func(n int) bool { // a tick may be late, never early: the tokens are there
		if r.ask(ctx, "ann").passed() {
			steady++
		}
		return n < more-1
	})
	ok := passed >= 10 && int64(passed) <= most && steady == more
	if ok && most >= asked {
		return slow("The %d requests at once took %.1f s, in which the bucket refilled.", asked, burst.took().Seconds()), nil
	}
	return r.judge(ok, fmt.Sprintf("%d of %d passed at once, %d were denied; then %d of %d passed at 2 a second.", passed, asked, asked-passed, steady, more)), nil
}

func twoUsers(ctx context.Context, r *rehearsal) (verdict, error) {
	s := continuous(10, 1)
	s.Key = "user"
	if err := r.set(s); err != nil {
		return verdict{}, err
	}
	const length, each = 5 * time.Second, 100 * time.Millisecond
	var ann replies
	bob := 0
	r.say("Ann sends 10 a second, Bob 1 a second")
	var wg sync.WaitGroup
	wg.Go(func() {
		steadily(ctx, each, func(n int) bool {
			ann = append(ann, r.ask(ctx, "ann"))
			return n < int(length/each)-1
		})
	})
	asked := 0
	steadily(ctx, time.Second, func(n int) bool {
		asked++
		if r.ask(ctx, "bob").passed() {
			bob++
		}
		return n < int(length/time.Second)-1
	})
	wg.Wait()
	passed := ann.passed()
	return r.judge(
		bob == asked && passed >= 10 && int64(passed) <= ann.most(s.limit()),
		fmt.Sprintf("%d of Ann’s %d passed, and %d of Bob’s %d.", passed, len(ann), bob, asked),
	), nil
}

func threeAtOnce(ctx context.Context, r *rehearsal) (verdict, error) {
	const slots, asked = 3, 10
	s := continuous(100, 100)
	s.slots, s.takes = slots, 2*time.Second
	if err := r.set(s); err != nil {
		return verdict{}, err
	}
	var passed [2]int
	for i := range passed {
		burst := r.burst(ctx, "ann", asked) // which is over when those that passed are answered
		passed[i] = burst.passed()
		r.say(fmt.Sprintf("%d at work, %d denied", passed[i], asked-passed[i]))
		if last := slices.MaxFunc(burst, func(a, b reply) int { return a.sent.Compare(b.sent) }).sent; last.Sub(burst.began()) >= s.takes {
			return slow("The %d requests at once were sent in more than %v.", asked, s.takes), nil
		}
	}
	return r.judge(passed == [2]int{slots, slots}, fmt.Sprintf("%d of %d worked at once, and when these were answered %d of %d.", passed[0], asked, passed[1], asked)), nil
}

func flood(ctx context.Context, r *rehearsal) (verdict, error) {
	const workers, length = 16, 4 * time.Second
	s := continuous(20, 50)
	if err := r.set(s); err != nil {
		return verdict{}, err
	}
	parts := make([]replies, workers)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for time.Since(began) < length && ctx.Err() == nil {
				parts[i] = append(parts[i], r.ask(ctx, "ann"))
			}
		})
	}
	wg.Wait()
	var all replies
	for _, p := range parts {
		all = append(all, p...)
	}
	passed, least, most, took := int64(all.passed()), all.least(s.limit()), all.most(s.limit()), all.took().Seconds()
	if right := passed <= most && passed >= least; right && least < most/2 {
		return slow("In %.2f s this machine sent %d requests: too few, or too slowly, to tell how many should pass.", took, len(all)), nil
	}
	return r.judge(
		passed <= most && passed >= least,
		fmt.Sprintf("%d of %d passed in %.2f s. Expected: at most %d, which is 20 + 50 × %.2f, and at least %d, by when the requests came.",
			passed, len(all), took, most, took, least),
	), nil
}

// drained is what became of a bucket after a burst: how its next 10 tokens came.
type drained struct {
	took   time.Duration // from the first of them to the last
	denied int           // requests between them
	soon   time.Duration // from the bucket's first use to the first of them
	late   time.Duration // it may have been there for so long before
}

func bothModes(ctx context.Context, r *rehearsal) (verdict, error) {
	const interval = 2 * time.Second
	seen := map[string]drained{}
	for _, mode := range []string{"continuous", "stepped"} {
		s := continuous(10, 10)
		s.Interval, s.Mode = float64(interval.Milliseconds()), mode
		if err := r.set(s); err != nil {
			return verdict{}, err
		}
		r.say("draining a " + mode + " bucket, then asking until 10 tokens came")
		burst := r.burst(ctx, "ann", 12)
		if burst.took() >= interval {
			return slow("It took %.1f s to drain a bucket.", burst.took().Seconds()), nil
		}
		began := time.Now()
		d, last := r.drain(ctx, burst)
		if d == nil && last.denied() && last.sent.Sub(began) > drainTime/2 {
			return r.judge(false, fmt.Sprintf("10 tokens did not come to the %s bucket in %s.", mode, drainTime)), nil
		}
		if d == nil || d.late > interval/2 {
			return slow("This machine stood still while tokens came."), nil
		}
		seen[mode] = *d
	}
	even, step := seen["continuous"], seen["stepped"]
	return r.judge(
		even.took >= interval*9/10-even.late-drift && step.denied == 0 && step.soon >= interval-drift,
		fmt.Sprintf("Continuous: 10 tokens in %.2f s, with %d requests denied between them. Stepped: 10 in %.2f s, with %d denied between.",
			even.took.Seconds(), even.denied, step.took.Seconds(), step.denied),
	), nil
}

const drainTime = 20 * time.Second

// drain asks until 10 tokens came to a bucket that was seen empty, in a burst or after it. It returns nil if they did
// not come, and the last reply.
func (r *rehearsal) drain(ctx context.Context, burst replies) (*drained, reply) {
	began := time.Now()
	var d drained
	var first, last, empty reply
	for _, b := range burst {
		if b.denied() && b.sent.After(empty.sent) {
			empty = b
		}
	}
	tokens, between := 0, 0
	steadily(ctx, 20*time.Millisecond, func(int) bool {
		last = r.ask(ctx, "ann")
		switch {
		case last.denied() && tokens == 0:
			empty = last
		case last.denied():
			between++
		case !last.passed() || empty.sent.IsZero():
		case tokens == 0:
			first, tokens = last, 1
			d.late = first.answered.Sub(empty.sent)
			d.soon = first.answered.Sub(burst.began())
		default:
			tokens++
			d.denied += between
			between = 0
		}
		return tokens < 10 && time.Since(began) < drainTime
	})
	if tokens < 10 {
		return nil, last
	}
	d.took = last.answered.Sub(first.answered)
	return &d, last
}
