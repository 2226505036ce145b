package circuit

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// planOfADay is one limit that takes a day to be full.
func planOfADay() *bucket.LimitSet {
	return bucket.NewLimitSet([]bucket.Rate{bucket.NewRate(bucket.Spec{Capacity: 24, RefillRate: 1, RefillInterval: time.Hour}, 1)})
}

// returned is a request that a Backlog takes.
func returned(action bucket.Action) Returned {
	r := store.NewRequest("api", "k", bucket.Request{Set: planOfADay(), Action: action, N: 1})
	if action == bucket.End {
		r.Ends = bucket.Ending{Ticket: bucket.FirstReturning, Back: 1}
	}
	return Returned{Request: r.Later()}
}

// rest lets time pass in a synctest bubble.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// backlogBench is a Backlog of a breaker that is open, and what it has done.
type backlogBench struct {
	*testing.T
	*Backlog
	answers atomic.Bool // a trial succeeds

	mu    sync.Mutex // guards all below
	sent  int
	tried []bucket.Action
}

// onBacklog runs a test in a synctest bubble.
func onBacklog(t *testing.T, test func(b *backlogBench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := Group{Describe: func(error) string { return "" }}
		circuit := g.New(func() string { return "" }, 1, time.Second, func() *slog.Logger { return slog.New(slog.DiscardHandler) })
		b := &backlogBench{T: t}
		b.Backlog = NewBacklog(circuit, time.Second, func(list []Returned) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.sent += len(list)
		}, func(Returned) bool {
			r, _ := b.Trial()
			if !b.answers.Load() && r.Request.Action == bucket.End {
				b.Add(r)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.tried = append(b.tried, r.Request.Action)
			return b.answers.Load()
		})
		circuit.Fail(time.Now(), errors.New("away"))
		require.True(t, circuit.Open())
		test(b)
	})
}

// done returns how much was sent, and the actions of the trials.
func (b *backlogBench) done() (sent int, tried []bucket.Action) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent, slices.Clone(b.tried)
}

// Only the end of a hold may be sent by a trial that may get no answer.
func TestATrialEndsAHoldOrChangesNothing(t *testing.T) {
	onBacklog(t, func(b *backlogBench) {
		for range 10 {
			b.Add(returned(bucket.Refund))
		}
		rest(3500 * time.Millisecond)
		_, tried := b.done()
		assert.Equal(b, []bucket.Action{bucket.Take, bucket.Take, bucket.Take}, tried, "a refund is not sent as a trial: what is asked takes nothing")
		b.Add(returned(bucket.End))
		rest(time.Second)
		sent, tried := b.done()
		assert.Equal(b, bucket.End, tried[3], "a hold can be ended twice, so its end is the trial")
		assert.Zero(b, sent, "nothing else is sent while the server is away")
		b.answers.Store(true)
		rest(time.Second)
		sent, _ = b.done()
		assert.Equal(b, 10, sent, "all is sent when the server is back")
		rest(time.Minute)
		_, tried = b.done()
		assert.Len(b, tried, 5, "when nothing is kept, nothing is tried")
	})
}

func TestASuccessfulTrialSendsWhatIsKept(t *testing.T) {
	onBacklog(t, func(b *backlogBench) {
		rest(900 * time.Millisecond)
		b.Add(returned(bucket.Refund))
		rest(200 * time.Millisecond)
		report, err := b.breaker.Enter()
		require.NoError(b, err)
		report(nil)
		sent, tried := b.done()
		assert.Equal(b, 1, sent, "what is kept is sent before the call that tried has its answer")
		assert.Empty(b, tried)
	})
}

func TestKeptIsBounded(t *testing.T) {
	onBacklog(t, func(b *backlogBench) {
		for range maxBacklog + 5 {
			b.Add(returned(bucket.Refund))
		}
		b.answers.Store(true)
		rest(2 * time.Second)
		sent, _ := b.done()
		assert.Equal(b, maxBacklog, sent)
	})
	onBacklog(t, func(b *backlogBench) {
		b.Add(returned(bucket.Refund))
		rest(25 * time.Hour) // a day at most
		b.answers.Store(true)
		rest(2 * time.Second)
		sent, _ := b.done()
		assert.Zero(b, sent, "a bucket that is full by now gets nothing back")
	})
}

// What may have been executed is not sent again, but for the end of a hold.
func TestOnlyTheEndOfAHoldIsSentAgain(t *testing.T) {
	set := bucket.NewLimitSet([]bucket.Rate{bucket.NewRate(bucket.Spec{Mode: bucket.Concurrent, Capacity: 5, MaxHold: time.Minute}, 1)})
	const ticket = bucket.FirstReturning + 7
	each := func(n int64) *[]int64 { return &[]int64{n} }
	ends := bucket.Ending{Ticket: ticket, At: 5, Back: 1}
	for _, rule := range []struct {
		name            string
		r               bucket.Request
		later           bool // nobody asks again
		unsent, unknown bucket.Action
		no, never       bool // nothing is sent, if it was not sent before, and if that is not known
	}{
		{"a release", bucket.Request{Action: bucket.End, Ends: ends}, true, bucket.End, bucket.End, false, false},
		{"an undo", bucket.Request{Action: bucket.Refund, Each: each(1), Ends: ends}, true, bucket.Refund, bucket.End, false, false},
		{"a settlement", bucket.Request{Action: bucket.Refund, Each: each(-1), Ends: ends}, true, bucket.Refund, 0, false, true},
		{"a refund of no hold", bucket.Request{Action: bucket.Refund, N: 1}, true, bucket.Refund, 0, false, true},
		{"a refund that its caller can repeat", bucket.Request{Action: bucket.Refund, N: 1}, false, 0, 0, true, true},
		{"a decision that takes slots", bucket.Request{Action: bucket.Acquire, N: 1, Ticket: ticket}, false, 0, bucket.End, true, false},
		{"one that holds slots for longer", bucket.Request{Action: bucket.Acquire, Each: each(1), Ticket: ticket, Ends: ends}, false, 0, 0, true, true},
		{"a decision that takes tokens", bucket.Request{Action: bucket.Take, N: 1}, false, 0, 0, true, true},
	} {
		rule.r.Set = set
		r := store.NewRequest("api", "k", rule.r)
		if rule.later {
			r = r.Later()
		}
		for _, unsent := range []bool{true, false} {
			want, none := rule.unknown, rule.never
			if unsent {
				want, none = rule.unsent, rule.no
			}
			got, some := Later(r, errors.New("away"), unsent)
			assert.Equal(t, !none, some, "%s, unsent %v", rule.name, unsent)
			if some {
				assert.Equal(t, want, got.Action, "%s, unsent %v", rule.name, unsent)
				assert.Positive(t, got.Until, rule.name)
			}
			if some && want == bucket.End {
				assert.EqualValues(t, ticket, got.Ends.Ticket, rule.name)
			}
			_, some = Later(r, &store.StateError{}, unsent)
			assert.False(t, some, "%s of a key that can't be used", rule.name)
		}
	}
}
