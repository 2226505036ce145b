package outgoing_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/advice"
	"github.com/tokenbucket-go/ratelimit/internal/outgoing"
)

// newGate returns a gate where nothing is by chance.
func newGate(c outgoing.Config) *outgoing.Gate {
	c.Queue = max(c.Queue, 100)
	c.Jitter = func(most time.Duration) time.Duration { return most / 2 }
	return outgoing.New(c)
}

// enter has a request of the key a pass, and fails the test if it does not.
func enter(t *testing.T, g *outgoing.Gate) *outgoing.Turn {
	t.Helper()
	turn, err := g.Enter(t.Context(), outgoing.Call{Key: "a"})
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// stepped is a clock that can be set.
type stepped struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *stepped) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *stepped) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// The clocks of the service, of the limiter and of the store of pauses step by
// an hour, back and forth. No request waits for longer than two seconds, and
// the limiter admits no more than its limit and what a step forth refills.
func TestClocksThatStep(t *testing.T) {
	for _, first := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			clock := new(stepped)
			clock.step(24 * time.Hour)
			memory := core.NewMemoryStore(core.WithClock(clock.now))
			limit := core.PerSecond(10)
			limiter := core.Must(core.NewLimiter(memory, core.Policy{Name: "own", Limits: []core.Limit{limit}}))
			shared := core.Must(outgoing.NewShared(memory))
			g := newGate(outgoing.Config{Limiter: limiter, Shared: shared})
			began, sent := time.Now(), int64(0)
			for i := 0; time.Since(began) < 100*time.Second; i++ {
				switch i % 100 {
				case 40:
					clock.step(first)
				case 80:
					clock.step(-first)
				}
				turn := enter(t, g)
				if sent++; turn.Waited > 2*time.Second {
					t.Fatalf("request %d waited for %v after a step of %v", i, turn.Waited, first)
				}
				now := clock.now().UTC() // dates of the service, which has this clock too
				fields := map[string][]string{"Date": {now.Format("Mon, 02 Jan 2006 15:04:05 GMT")}, "Retry-After": {now.Add(time.Second).Format("Mon, 02 Jan 2006 15:04:05 GMT")}}
				a := advice.Read(func(name string) []string { return fields[name] }, time.Now())
				if i%100 == 50 {
					turn.Refused(a)
				} else {
					turn.Served(a)
				}
				turn.End(nil)
			}
			if steps := sent/100 + 1; sent > limit.MaxIn(100*time.Second)+steps*limit.Capacity || sent < 500 {
				t.Errorf("%d requests in 100 s with %d steps: want those of the limit, which lose a second with each of the refusals", sent, 2*steps)
			}
		})
	}
}

// Pauses go by the monotonic clock: setting the clock of the machine changes
// none.
func TestPausesAreMonotonic(t *testing.T) {
	g := newGate(outgoing.Config{})
	turn := enter(t, g)
	turn.Refused(advice.Advice{RetryAfter: time.Hour})
	turn.End(nil)
	_, err := g.Enter(t.Context(), outgoing.Call{Key: "a", Until: time.Now().Add(time.Minute)})
	var late *outgoing.Error
	if !errors.As(err, &late) {
		t.Fatal(err)
	}
	for what, at := range map[string]time.Time{"Turn.Paused": turn.Paused(), "State": g.State("a").PausedUntil, "Error": late.Until} {
		if !strings.Contains(at.String(), " m=+") {
			t.Errorf("%s: %v has no reading of the monotonic clock", what, at)
		}
	}
}

// After a pause one request goes first. The others follow when it is answered,
// or after a second.
func TestOneRequestAsksFirst(t *testing.T) {
	for answered, want := range map[time.Duration]time.Duration{300 * time.Millisecond: 300 * time.Millisecond, 5 * time.Second: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(outgoing.Config{})
			turn := enter(t, g)
			turn.Refused(advice.Advice{RetryAfter: 10 * time.Second})
			turn.End(nil)
			end := turn.Paused()
			var mu sync.Mutex
			var at []time.Duration
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					turn := enter(t, g)
					mu.Lock()
					at = append(at, time.Since(end))
					mu.Unlock()
					time.Sleep(answered)
					turn.Served(advice.Advice{})
					turn.End(nil)
				})
			}
			all.Wait()
			if at[0] != 0 || at[1] != want {
				t.Errorf("answered after %v: requests were sent at %v after the pause, want one at once, and the next after %v", answered, at, want)
			}
		})
	}
}

// Whoever gives up leaves nothing behind: nobody waits, nothing is under way,
// no token is taken, and the next one goes.
func TestCallersThatGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{core.PerSecond(1)}}))
		g := newGate(outgoing.Config{Limiter: limiter})
		unsent := enter(t, g)
		unsent.Lost()
		unsent.NotSent()
		first := enter(t, g)
		var all sync.WaitGroup
		for i := range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(i)*10*time.Millisecond, cancel)
			all.Go(func() {
				if _, err := g.Enter(ctx, outgoing.Call{Key: "a"}); !errors.Is(err, context.Canceled) {
					t.Errorf("%v: want the error of the context", err)
				}
			})
		}
		all.Wait()
		first.Served(advice.Advice{})
		first.End(nil)
		if s := g.State("a"); s != (outgoing.State{}) {
			t.Errorf("%+v: want nothing waiting or under way", s)
		}
		if turn := enter(t, g); turn.Waited > time.Second {
			t.Errorf("the next one waited for %v: want a second, because no other has a token", turn.Waited)
		}
	})
}

// Nobody can know how long a call waits behind others for steps, or for a slot. It
// waits as long as it may, and its error does not blame the server.
func TestTheReasonOfAWaitWithoutAnEnd(t *testing.T) {
	for want, limit := range map[outgoing.Reason]core.Limit{outgoing.ForTurn: core.PerSecond(1).WithMode(core.Stepped), outgoing.ForLimit: core.InFlight(1)} {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(outgoing.Config{Limiter: core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{limit}}))})
			held := enter(t, g)
			held.Served(advice.Advice{})
			ctx, cancel := context.WithCancel(t.Context())
			for range 20 * int(limit.RefillRate) {
				go func() { _, _ = g.Enter(ctx, outgoing.Call{Key: "a"}) }()
			}
			time.Sleep(time.Millisecond)
			began := time.Now()
			_, err := g.Enter(t.Context(), outgoing.Call{Key: "a", Until: began.Add(5 * time.Second)})
			var late *outgoing.Error
			if !errors.As(err, &late) || late.Reason != want || !errors.Is(err, core.ErrDeadline) {
				t.Errorf("%v: %v after %v, want the reason %q", limit, err, time.Since(began), want)
			}
			cancel()
			synctest.Wait()
		})
	}
}

// A full queue is an error at once, and each priority has its places.
func TestTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{core.PerMinute(1)}}))
		g := outgoing.New(outgoing.Config{Limiter: limiter, Queue: 3})
		enter(t, g)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var mu sync.Mutex
		errs := map[string]int{}
		for _, ctx := range []context.Context{ctx, outgoing.AsBatch(ctx)} {
			for range 5 {
				all.Go(func() {
					_, err := g.Enter(ctx, outgoing.Call{Key: "a"})
					mu.Lock()
					defer mu.Unlock()
					errs[fmt.Sprint(errors.Is(err, outgoing.ErrQueueFull), errors.Is(err, context.Canceled))]++
				})
			}
		}
		synctest.Wait()
		if s := g.State("a"); s.Waiting != 3 || s.WaitingBatch != 3 {
			t.Errorf("%+v: want 3 of each priority waiting", s)
		}
		cancel()
		all.Wait()
		if errs["true false"] != 4 || errs["false true"] != 6 {
			t.Errorf("%v: want 4 errors of a full queue, and 6 of the context", errs)
		}
	})
}

// As many keys as are in use at once are remembered, but no longer than that:
// then the oldest ones are forgotten until 10,000 are left.
func TestKeysAreForgottenAfterAFlood(t *testing.T) {
	const flood = 15_000
	g := newGate(outgoing.Config{})
	turns := make([]*outgoing.Turn, flood)
	for i := range turns {
		turns[i] = core.Must(g.Enter(t.Context(), outgoing.Call{Key: strconv.Itoa(i)}))
	}
	for _, turn := range turns {
		turn.Refused(advice.Advice{RetryAfter: time.Hour})
		turn.End(nil)
	}
	known := 0
	for i := range turns {
		if !g.State(strconv.Itoa(i)).PausedUntil.IsZero() {
			known++
		}
	}
	if known != 10_000 || g.State(strconv.Itoa(flood-1)).PausedUntil.IsZero() {
		t.Errorf("%d of %d keys are remembered, want the 10,000 that were used last", known, flood)
	}
}

// distant is a store that takes 10 ms to answer.
type distant struct{ *core.MemoryStore }

func (s distant) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	time.Sleep(10 * time.Millisecond)
	return s.MemoryStore.Do(ctx, r)
}

// An interactive request comes while the store denies one of a batch, which had
// its turn. Both get their tokens as these come, and neither sleeps.
func TestTheTurnChangesWhileTheStoreIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(core.NewLimiter(distant{core.NewMemoryStore()}, core.Policy{Name: "own", Limits: []core.Limit{core.PerSecond(1).WithUnit("tokens")}}))
		g := newGate(outgoing.Config{Limiter: limiter})
		one := core.Units{"tokens": 1}
		core.Must(limiter.AllowUnits(t.Context(), "a", one)) // at 10 ms, so the next token comes at 1.01 s
		var all sync.WaitGroup
		pass := func(ctx context.Context, least, most time.Duration) {
			all.Go(func() {
				turn, err := g.Enter(ctx, outgoing.Call{Key: "a", Units: one, Until: time.Now().Add(time.Minute)})
				if err != nil {
					t.Errorf("%v: want the turn between %v and %v", err, least, most)
					return
				}
				if turn.Waited < least || turn.Waited > most {
					t.Errorf("a request waited for %v, want between %v and %v", turn.Waited, least, most)
				}
				turn.Served(advice.Advice{})
				turn.End(nil)
			})
		}
		pass(outgoing.AsBatch(t.Context()), 2900*time.Millisecond, 3100*time.Millisecond)
		time.Sleep(995 * time.Millisecond)
		all.Go(func() { core.Must(limiter.AllowUnits(t.Context(), "a", one)) }) // another process, at 1.015 s
		time.Sleep(10 * time.Millisecond)                                       // the batch asks from 1.01 to 1.02 s
		pass(t.Context(), 900*time.Millisecond, 1100*time.Millisecond)
		all.Wait()
	})
}

// A pause begins while a request asks the store for its token. The request
// gives it back and waits, too.
func TestAPauseBeginsWhileTheStoreIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := core.NewMemoryStore()
		policy := core.Policy{Name: "own", Limits: []core.Limit{core.PerHour(2)}}
		g := newGate(outgoing.Config{Limiter: core.Must(core.NewLimiter(distant{memory}, policy))})
		first := enter(t, g)
		time.AfterFunc(5*time.Millisecond, func() {
			first.Refused(advice.Advice{RetryAfter: 10 * time.Second})
			first.End(nil)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		var late *outgoing.Error
		if _, err := g.Enter(ctx, outgoing.Call{Key: "a"}); !errors.As(err, &late) || late.Reason != outgoing.ForPause {
			t.Errorf("%v: want the pause as the reason", err)
		}
		if res := core.Must(core.Must(core.NewLimiter(memory, policy)).Peek(t.Context(), "a")); res.Remaining != 1 {
			t.Errorf("%d tokens are left, want 1: the second request was not sent", res.Remaining)
		}
	})
}

// The pause of one process holds back another one that shares its store. One
// request of that goes first, too.
func TestSharedPausesReachOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := core.Must(outgoing.NewShared(core.NewMemoryStore()))
		one, other := newGate(outgoing.Config{Shared: shared}), newGate(outgoing.Config{Shared: shared})
		for range 10 { // the other knows the server already
			turn := enter(t, other)
			turn.Served(advice.Advice{})
			turn.End(nil)
		}
		turn := enter(t, one)
		turn.Refused(advice.Advice{RetryAfter: 10 * time.Second})
		turn.End(nil)
		time.Sleep(time.Second)
		var mu sync.Mutex
		var waits []time.Duration
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				turn := enter(t, other)
				mu.Lock()
				waits = append(waits, turn.Waited)
				mu.Unlock()
				time.Sleep(300 * time.Millisecond)
				turn.Served(advice.Advice{})
				turn.End(nil)
			})
			synctest.Wait() // who comes while the pause is looked up goes without it
		}
		all.Wait()
		if waits[0] < 9*time.Second || waits[0] > 12*time.Second || waits[1] != waits[0]+300*time.Millisecond {
			t.Errorf("the others waited for %v, want the 10 s of the pause and a little longer, and for the answer to the first", waits)
		}
	})
}
