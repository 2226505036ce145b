package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

func all(_ context.Context, j job) (int64, error) { return j.rows, nil }

func quiet(b *batch) *batch {
	b.logf = func(string, ...any) {}
	return b
}

func TestReplicasShareTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, start := core.NewMemoryStore(), time.Now()
		var replicas sync.WaitGroup
		for range 2 {
			replicas.Go(func() {
				// 250 is done in parts of at most the capacity.
				if err := quiet(newBatch(store, all)).run(t.Context(), 3, []job{{"a", 250}, {"b", 40}, {"c", 60}}); err != nil {
					t.Error(err)
				}
			})
		}
		replicas.Wait()
		// 700 rows, 100 of them at once.
		if took := time.Since(start).Round(time.Millisecond); took != 6*time.Second {
			t.Errorf("took %v, want 6s", took)
		}
	})
}

// One worker, so that the order is known: a is done at once, b would wait a second, c is never begun.
func TestCancelledJobsGiveTheirTokensBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := quiet(newBatch(core.NewMemoryStore(), all))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		start := time.Now()
		err := b.run(ctx, 1, []job{{"a", 100}, {"b", 100}, {"c", 10}})
		if !errors.Is(err, context.Canceled) || time.Since(start) != 500*time.Millisecond || b.done.Load() != 100 {
			t.Errorf("%v after %v with %d rows done, want a cancelled run after 500ms with 100", err, time.Since(start), b.done.Load())
		}
		// a took all there was; half a second brought 50.
		if res, err := b.limiter.Peek(t.Context(), "rows"); err != nil || res.Remaining != 50 {
			t.Errorf("%d tokens are there, %v, want 50", res.Remaining, err)
		}
	})
}

func TestUnusedTokensAreRefunded(t *testing.T) {
	failed := errors.New("disk full")
	tests := []struct {
		name    string
		written int64
		err     error
		left    int64
	}{
		{"all written", 80, nil, 20},
		{"half of it was unchanged", 40, nil, 60},
		{"failed", 0, failed, 100},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := quiet(newBatch(core.NewMemoryStore(), func(context.Context, job) (int64, error) { return tt.written, tt.err }))
				if err := b.run(t.Context(), 1, []job{{"a", 80}}); !errors.Is(err, tt.err) {
					t.Errorf("error %v, want %v", err, tt.err)
				}
				if res, _ := b.limiter.Peek(t.Context(), "rows"); res.Remaining != tt.left {
					t.Errorf("%d tokens are left, want %d", res.Remaining, tt.left)
				}
			})
		})
	}
}

func TestProgressTellsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatch(core.NewMemoryStore(), all)
		var log []string
		b.logf = func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
		if err := b.run(t.Context(), 1, []job{{"a", 100}, {"b", 50}}); err != nil {
			t.Fatal(err)
		}
		want := "a done; 100 of 150 rows|b: 50 rows in 500ms|b done; 150 of 150 rows"
		if got := strings.Join(log, "|"); got != want {
			t.Errorf("progress %q, want %q", got, want)
		}
	})
}
