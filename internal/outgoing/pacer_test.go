package outgoing_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/outgoing"
)

// outcome is how a call ended, with fields that alternate with their values.
func outcome(code outgoing.Code, fields ...string) outgoing.Outcome {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return outgoing.Outcome{Code: code, Fields: h.Values}
}

// Which calls are sent again, and how often.
func TestWhichCallsAreSentAgain(t *testing.T) {
	const pushback = "Grpc-Retry-Pushback-Ms"
	repeats := func(string) bool { return true }
	for rule, c := range map[string]struct {
		first   outgoing.Outcome
		repeats func(string) bool
		want    int
	}{
		"a refusal with pushback":                  {outcome(8, pushback, "100"), nil, 2},
		"a refusal with Retry-After":               {outcome(8, "Retry-After", "1"), nil, 2},
		"a refusal with nothing left":              {outcome(8, "RateLimit", `"a";r=0;t=3`), nil, 2},
		"a refusal that says not to retry":         {outcome(8, pushback, "-1", "Retry-After", "1"), nil, 1},
		"a pushback that is no number":             {outcome(8, pushback, "soon", "Retry-After", "1"), nil, 1},
		"a pushback that is too large":             {outcome(8, pushback, "99999999999", "Retry-After", "1"), nil, 1},
		"a pushback of weeks":                      {outcome(8, pushback, "2000000000"), nil, 1},
		"no advice: perhaps the message too large": {outcome(8), nil, 1},
		"unavailable":                              {outcome(14), repeats, 1},
		"unavailable with Retry-After":             {outcome(14, "Retry-After", "1"), nil, 1},
		"the same, and it may be executed twice":   {outcome(14, "Retry-After", "1"), repeats, 2},
		"another error":                            {outcome(13, "Retry-After", "1"), repeats, 1},
		"success":                                  {outcome(0, "Retry-After", "1"), repeats, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			var kinds []outgoing.Kind
			p := core.Must(outgoing.NewPacer(outgoing.Pacing{Repeats: c.repeats, Observer: func(_ context.Context, e outgoing.Event) { kinds = append(kinds, e.Kind) }}))
			failed, calls := errors.New("failed"), 0
			err := p.Unary(t.Context(), "/a/b", "host", func() (outgoing.Outcome, error) {
				if calls++; calls > 1 {
					return outcome(0), nil
				}
				if c.first.Code == 0 {
					return c.first, nil
				}
				return c.first, failed
			})
			if calls != c.want || c.want == 1 && c.first.Code != 0 && err != failed || c.want == 2 && err != nil {
				t.Errorf("%s: %d calls, %v, want %d", rule, calls, err, c.want)
			}
			if again := slices.Contains(kinds, outgoing.SentAgain); again != (c.want == 2) {
				t.Errorf("%s: observers saw %v", rule, kinds)
			}
			if s := p.State("target:host"); s.Waiting != 0 || s.UnderWay != 0 {
				t.Errorf("%s: at rest %+v", rule, s)
			}
		})
	}
}

// A stream that takes longer than MaxHold keeps its slot for as long as messages
// come.
func TestALongStreamKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{core.InFlight(1).WithMaxHold(time.Second)}}))
		p := core.Must(outgoing.NewPacer(outgoing.Pacing{Limiter: limiter}))
		s := core.Must(p.Open(t.Context(), "/a/b", "host"))
		s.Follow(t.Context())
		for range 1000 {
			time.Sleep(300 * time.Millisecond)
			s.Received(outcome(0), false)
			if res := core.Must(limiter.Allow(t.Context(), "target:host")); res.Allowed {
				t.Fatal("the slot went to another while messages came")
			}
		}
		s.Received(outcome(0), true)
		s.Close()
		if res := core.Must(limiter.Allow(t.Context(), "target:host")); !res.Allowed {
			t.Error("the stream is over and its slot is not free")
		}
	})
}

// stuck is a store that does not answer until its context ends.
type stuck struct{ *core.MemoryStore }

func (stuck) Do(ctx context.Context, _ store.Request) (store.Answer, error) {
	<-ctx.Done()
	return store.Answer{}, ctx.Err()
}

// While a store does not answer, nothing else waits for it: no lock is held.
func TestNoLockIsHeldWhileTheStoreIsAsked(t *testing.T) {
	limiter := core.Must(core.NewLimiter(stuck{core.NewMemoryStore()}, core.Policy{Name: "own", Limits: []core.Limit{core.PerSecond(1)}}))
	g := newGate(outgoing.Config{Limiter: limiter})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	for range 2 {
		go func() {
			_, err := g.Enter(ctx, outgoing.Call{Key: "a"})
			done <- err
		}()
	}
	for g.State("a").UnderWay == 0 { // it asks the store
		time.Sleep(time.Millisecond)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := g.Enter(ended, outgoing.Call{Key: "a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v: want the error of the context", err)
	}
	cancel()
	for range 2 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%v: want the error of the context", err)
		}
	}
	if s := g.State("a"); s != (outgoing.State{}) {
		t.Errorf("at rest: %+v", s)
	}
}
