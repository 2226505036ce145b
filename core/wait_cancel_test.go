package core_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// slowStore answers after a second of a synctest bubble's time, and counts what
// it is asked. It fails the first calls that end holds.
type slowStore struct {
	*core.MemoryStore

	slow      atomic.Bool
	fails     atomic.Int64
	ends      atomic.Int64
	underWay  atomic.Int64
	atOnceMax atomic.Int64
}

func (s *slowStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if r.Action == bucket.End {
		s.ends.Add(1)
		if n := s.underWay.Add(1); n > s.atOnceMax.Load() {
			s.atOnceMax.Store(n)
		}
		defer s.underWay.Add(-1)
		if s.slow.Load() {
			time.Sleep(time.Second)
		}
		if s.fails.Add(-1) >= 0 {
			return store.Answer{}, errors.New("no answer")
		}
	}
	return s.MemoryStore.Do(ctx, r)
}

// leave has so many waits on one key end at once, and returns how long each
// took to return after that.
func leave(t *testing.T, s *slowStore, waits int) (l *core.Limiter, longest time.Duration) {
	t.Helper()
	l, err := core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1)}, OnFailure: core.FailClosed})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Allow(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, waits)
	for range waits {
		go func() { ended <- l.Wait(ctx, "k") }()
	}
	synctest.Wait()
	if res, err := l.Peek(t.Context(), "k"); err != nil || res.ResetAfter != time.Duration(waits+1)*time.Hour {
		t.Fatalf("premise: all wait: full in %v, %v", res.ResetAfter, err)
	}
	left := time.Now()
	cancel()
	for range waits {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a wait that was canceled returned %v", err)
		}
	}
	return l, time.Since(left)
}

func TestWaitsThatEndAtOnceShareCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{MemoryStore: core.NewMemoryStore()}
		s.slow.Store(true)
		l, took := leave(t, s, 1000)
		if took > 50*time.Millisecond {
			t.Errorf("a wait returned %v after its context ended, want at most 50ms, however slow the store is", took)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if n := s.ends.Load(); n > 3 { // the first alone, and the others, 512 at a time
			t.Errorf("1,000 waits of one key that ended at once took %d calls, want at most 3", n)
		}
		if n := s.atOnceMax.Load(); n > 1 {
			t.Errorf("%d calls for one key were under way at once, want 1", n)
		}
		if res, err := l.Allow(t.Context(), "k"); err != nil || res.RetryAfter > time.Hour || res.RetryAfter < time.Hour-5*time.Second {
			t.Errorf("after 1,000 waits have ended the next caller waits %v, want the hour that one token takes: %v", res.RetryAfter, err)
		}
	})
}

func TestCancelThatFailsIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{MemoryStore: core.NewMemoryStore()}
		s.fails.Store(2)
		l, _ := leave(t, s, 1)
		time.Sleep(2 * time.Second)
		if res, err := l.Peek(t.Context(), "k"); err != nil || res.ResetAfter > time.Hour {
			t.Errorf("a wait whose cancel failed twice holds its token still: full in %v, %v", res.ResetAfter, err)
		}
	})
}
