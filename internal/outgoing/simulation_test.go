package outgoing_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/advice"
	"github.com/tokenbucket-go/ratelimit/internal/outgoing"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// simulation is callers of one key who give up, a server that refuses and hangs
// up, and a store that takes its time. It is a store itself.
type simulation struct {
	*core.MemoryStore
	gate    *outgoing.Gate
	limiter *core.Limiter // nil: none
	units   core.Units

	mu     sync.Mutex // guards all below
	random *rand.Rand
	until  time.Time // of the pause that the server has asked for
	queued int       // as observers see it
	sent   int
}

// trip is how long the store takes at most.
const trip = 20 * time.Millisecond

func (s *simulation) upTo(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.random.Int64N(int64(d)))
}

func (s *simulation) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	select {
	case <-time.After(s.upTo(trip)):
		return s.MemoryStore.Do(ctx, r)
	case <-ctx.Done():
		return store.Answer{}, ctx.Err()
	}
}

func (s *simulation) observe(_ context.Context, e outgoing.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queued += e.Queued; e.Kind == outgoing.Sent {
		s.sent++
	}
}

// call has one caller wait, and the server answer.
func (s *simulation) call(t *testing.T) {
	time.Sleep(s.upTo(300 * time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if s.upTo(2) == 0 {
		ctx = outgoing.AsBatch(ctx)
	}
	if s.upTo(5) == 0 {
		time.AfterFunc(s.upTo(3*time.Second), cancel)
	}
	began, most := time.Now(), time.Second+s.upTo(2*time.Minute)
	turn, err := s.gate.Enter(ctx, outgoing.Call{Key: "a", Units: s.units, Until: began.Add(most)})
	if waited := time.Since(began); waited > most+4*trip {
		t.Errorf("a call waited for %v, and wanted to wait for %v", waited, most)
	}
	var late *outgoing.Error
	switch {
	case errors.As(err, &late) && late.Reason != "" || errors.Is(err, context.Canceled):
		return
	case err != nil:
		t.Errorf("%v: want an Error with its reason, or the error of the context", err)
		return
	}
	s.mu.Lock()
	if left := time.Until(s.until); left > 0 {
		t.Errorf("a call was sent %v before the end of a pause", left)
	}
	s.mu.Unlock()
	time.Sleep(s.upTo(100 * time.Millisecond))
	s.answer(turn)
}

// answer ends a turn as the server and the network please.
func (s *simulation) answer(turn *outgoing.Turn) {
	switch s.upTo(40) {
	case 0:
		turn.Refused(advice.Advice{RetryAfter: time.Second + s.upTo(2*time.Second)})
		s.mu.Lock()
		s.until = turn.Paused()
		s.mu.Unlock()
	case 1:
		turn.Busy(advice.Advice{RetryAfter: time.Second})
	case 2:
		turn.Lost()
	case 3:
		turn.Lost()
		turn.NotSent()
		return
	default:
		turn.Served(advice.Advice{})
	}
	turn.End(nil)
}

// watch fails the test if calls wait though nothing is in their way.
func (s *simulation) watch(t *testing.T, over <-chan struct{}) {
	for before, stalls := 0, 0; stalls < 5; {
		select {
		case <-over:
			return
		case <-time.After(500 * time.Millisecond):
		}
		free := true
		if s.limiter != nil {
			res := core.Must(s.limiter.AllowUnits(t.Context(), "a", s.units))
			free = res.Allowed
			_ = res.Undo(t.Context())
		}
		state := s.gate.State("a")
		s.mu.Lock()
		if free && s.sent == before && state.Waiting+state.WaitingBatch > 0 && state.UnderWay == 0 && state.PausedUntil.IsZero() && state.Rate == 0 {
			if stalls++; stalls == 5 {
				t.Errorf("%+v: calls wait, and nothing is in their way", state)
			}
		} else {
			stalls = 0
		}
		before = s.sent
		s.mu.Unlock()
	}
}

// Whatever happens, nothing is sent in a pause, nobody waits for longer than
// wanted or without a reason, and in the end nothing waits and no slot is taken.
func TestCallersInTrouble(t *testing.T) {
	rate, tokens, slots := core.PerSecond(10).WithName("rate"), core.PerSecond(10).WithUnit("tokens").WithName("tokens"), core.InFlight(3).WithName("slots")
	for seed := range uint64(soak.Budget(60, 6000)) {
		limits := [][]core.Limit{nil, {rate}, {tokens}, {slots}, {slots, rate}, {rate, tokens}}[seed%6]
		synctest.Test(t, func(t *testing.T) {
			s := &simulation{MemoryStore: core.NewMemoryStore(), random: rand.New(rand.NewPCG(seed, 0))}
			c := outgoing.Config{Queue: 1000, Observers: []func(context.Context, outgoing.Event){s.observe}, Jitter: s.upTo}
			if limits != nil {
				s.limiter = core.Must(core.NewLimiter(s, core.Policy{Name: "own", Limits: limits}))
				c.Limiter = s.limiter
			}
			if seed%6 == 2 || seed%6 == 5 {
				s.units = core.Units{"tokens": 1}
			}
			if s.upTo(2) == 0 {
				c.Shared = core.Must(outgoing.NewShared(s))
			}
			s.gate = outgoing.New(c)
			over := make(chan struct{})
			var callers, watcher sync.WaitGroup
			watcher.Go(func() { s.watch(t, over) })
			for range 20 {
				callers.Go(func() {
					for range 10 {
						s.call(t)
					}
				})
			}
			callers.Wait()
			close(over)
			watcher.Wait()
			if state := s.gate.State("a"); state.Waiting+state.WaitingBatch+state.UnderWay+s.queued != 0 {
				t.Errorf("at rest %+v, and observers saw %d more begin to wait than end it", state, s.queued)
			}
			time.Sleep(10 * time.Second) // less than MaxHold
			for i := range 3 {
				if s.limiter != nil && !core.Must(s.limiter.AllowUnits(t.Context(), "a", s.units)).Allowed {
					t.Errorf("%v: seconds later only %d calls may go at once", limits, i)
				}
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d, limits %v", seed, limits)
		}
	}
}
