package storetest

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// The clock stands still while a limiter waits in real time, so no rule waits
// to the end.
var waitRules = []storeRule{
	{"a wait for tokens that are there ends at once", waitForNothing},
	{"a wait past the deadline is refused at once and takes nothing", waitPastDeadline},
	{"a wait that can never end is refused at once", waitForEver},
	{"a wait that is cancelled gives its tokens back", waitCancelled},
	{"hundreds of waits that are cancelled at once leave nothing behind", waitsCancelled},
}

func waitForNothing(s *subject) {
	l := s.limiter(core.PerHour(10))
	s.no(l.WaitN(s.Context(), key, 4))
	s.holds(l, 6, "a wait takes its tokens")
}

func waitPastDeadline(s *subject) {
	l := s.limiter(core.PerHour(1))
	s.grants(l, 1, 0, "all")
	soon, cancel := context.WithTimeout(s.Context(), 30*time.Minute)
	defer cancel()
	for range 3 {
		if err := l.Wait(soon, key); !errors.Is(err, core.ErrDeadline) {
			s.Fatalf("Wait of an hour with 30 minutes left = %v, want ErrDeadline", err)
		}
	}
	s.denies(l, 1, 0, time.Hour, "a refused wait promises nothing")
}

func waitForEver(s *subject) {
	l := s.limiter(core.PerHour(10))
	if err := l.WaitN(s.Context(), key, 11); !errors.Is(err, core.ErrCapacity) {
		s.Fatalf("WaitN(11) of 10 = %v, want ErrCapacity", err)
	}
	s.holds(l, 10, "a wait that can never end takes nothing")
}

func waitCancelled(s *subject) {
	l := s.limiter(core.PerHour(1))
	s.grants(l, 1, 0, "all")
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- l.Wait(ctx, key) }()
	giveUp := time.After(10 * time.Second)
	for s.take(l, 0).ResetAfter == time.Hour { // until the wait has its place in the queue
		select {
		case err := <-ended:
			s.Fatalf("Wait for an hour ended at once: %v", err)
		case <-giveUp:
			s.Fatal("a wait must take its place in the queue")
		default:
			runtime.Gosched()
		}
	}
	s.denies(l, 1, 0, 2*time.Hour, "a wait takes its place in the queue")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		s.Errorf("Wait whose context was cancelled = %v, want context.Canceled", err)
	}
	for s.take(l, 0).ResetAfter != time.Hour { // Wait waits for a slow store only so long
		select {
		case <-giveUp:
			s.Fatal("a canceled wait must give its place back")
		default:
			runtime.Gosched()
		}
	}
	s.denies(l, 1, 0, time.Hour, "a canceled wait gives its place back")
}

func waitsCancelled(s *subject) {
	const waits = 300
	l := s.limiter(core.PerHour(1))
	s.grants(l, 1, 0, "all")
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	ended := make(chan error, waits)
	for range waits {
		go func() { ended <- l.Wait(ctx, key) }()
	}
	// Real time passes until all wait, and until the store knows that they
	// don't: at most some 100 ms more than cancelling takes.
	until := func(what string, retry time.Duration) {
		for giveUp := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			res := s.take(l, 1)
			if res.RetryAfter == retry {
				return
			}
			if ctx.Err() == nil && len(ended) > 0 {
				s.Fatalf("%s: Wait = %v", what, <-ended)
			}
			if time.Now().After(giveUp) {
				s.Fatalf("%s: the next caller waits for %v, want %v", what, res.RetryAfter, retry)
			}
		}
	}
	until("each wait takes its place in the queue", (waits+1)*time.Hour)
	cancel()
	for range waits {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			s.Errorf("Wait whose context was cancelled = %v, want context.Canceled", err)
		}
	}
	until("waits that have ended are as if they had never come", time.Hour)
}
