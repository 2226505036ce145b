package circuit

import (
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// backlogBench is a Backlog of a breaker that is open, and what it has done.
type backlogBench struct {
	*testing.T
	*Backlog

	mu      sync.Mutex // guards all below; the test has it, but while time passes
	answers bool       // a trial succeeds
	sent    []string
	tried   []bucket.Request
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
			for _, r := range list {
				b.sent = append(b.sent, r.Key)
			}
		}, func(Returned) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			r, _ := b.Trial()
			if b.tried = append(b.tried, r.Request.Request); !b.answers && r.Request.Ends != nil {
				b.Add(r)
			}
			return b.answers
		})
		circuit.Fail(time.Now(), errors.New("away"))
		require.True(t, circuit.Open())
		b.mu.Lock()
		defer b.mu.Unlock()
		test(b)
	})
}

// after lets time pass.
func (b *backlogBench) after(d time.Duration) {
	b.mu.Unlock()
	defer b.mu.Lock()
	time.Sleep(d)
	synctest.Wait()
}

// close has another call close the breaker.
func (b *backlogBench) close() {
	report, err := b.breaker.Enter()
	require.NoError(b, err)
	b.mu.Unlock()
	defer b.mu.Lock()
	report(nil)
}

var (
	day   = bucket.NewLimitSet([]bucket.Rate{bucket.NewRate(bucket.Spec{Capacity: 24, RefillRate: 1, RefillInterval: time.Hour}, 1)})
	slots = bucket.NewLimitSet([]bucket.Rate{bucket.NewRate(bucket.Spec{Mode: bucket.Concurrent, Capacity: 5, MaxHold: 59500 * time.Millisecond}, 1)})
)

func returned(key string, set *bucket.LimitSet, r bucket.Request) Returned {
	r.Set = set
	return Returned{Key: key, Request: store.NewRequest("api", "k", r).Later()}
}

func refund(key string) Returned {
	return returned(key, day, bucket.Request{Action: bucket.Charge, N: -1})
}

func release(key string) Returned {
	return returned(key, slots, bucket.Request{Action: bucket.Charge, Each: &[]int64{0}, Ends: &[]int64{1}, Ticket: 7})
}

func TestWhatIsKeptIsSentWhenTheServerIsBack(t *testing.T) {
	onBacklog(t, func(b *backlogBench) {
		b.Add(refund("1"))
		b.Add(release("2"))
		b.after(3500 * time.Millisecond)
		assert.Len(b, b.tried, 3, "a pause after another it is tried")
		assert.Empty(b, b.sent, "nothing else is sent while the server is away")
		b.answers = true
		b.after(time.Second)
		assert.Equal(b, []string{"1"}, b.sent, "the other was the trial")
		b.after(time.Minute)
		assert.Len(b, b.tried, 4, "when nothing is kept, nothing is tried")
	})
	t.Run("by another call", func(t *testing.T) {
		onBacklog(t, func(b *backlogBench) {
			b.after(900 * time.Millisecond)
			b.Add(refund("1"))
			b.after(200 * time.Millisecond)
			b.close()
			assert.Equal(b, []string{"1"}, b.sent, "before that call has its answer")
			b.after(time.Minute)
			assert.Len(b, b.sent, 1, "once")
			assert.Empty(b, b.tried)
		})
	})
}

// A trial may be executed without an answer. Only the end of a hold can be sent
// twice.
func TestATrialEndsAHoldOrTakesNothing(t *testing.T) {
	settlement := returned("", slots, bucket.Request{Action: bucket.Charge, Each: &[]int64{1}, Ends: &[]int64{1}, Ticket: 7})
	for name, rule := range map[string]struct {
		kept Returned
		ends bool
	}{"a refund": {refund(""), false}, "a settlement": {settlement, false}, "a release": {release(""), true}} {
		onBacklog(t, func(b *backlogBench) {
			b.Add(rule.kept)
			b.after(time.Second)
			require.Len(b, b.tried, 1)
			assert.Equal(b, rule.ends, b.tried[0].Ends != nil, name)
			assert.False(b, b.tried[0].Moves(), name)
		})
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	onBacklog(t, func(b *backlogBench) {
		for range maxBacklog + 5 {
			b.Add(refund(""))
		}
		b.answers = true
		b.after(2 * time.Second)
		assert.Len(b, b.sent, maxBacklog)
	})
	for name, rule := range map[string]struct {
		kept Returned
		ends time.Duration
	}{"a bucket is full": {refund(""), 24 * time.Hour}, "a hold has ended": {release(""), 59500 * time.Millisecond}} {
		for _, past := range []time.Duration{-100 * time.Millisecond, 100 * time.Millisecond} {
			onBacklog(t, func(b *backlogBench) {
				kept := rule.kept
				kept.Request = kept.Request.Later() // by the clock of the bubble
				b.Add(kept)
				b.Add(kept)
				b.after(rule.ends + past)
				tried := len(b.tried)
				b.close()
				assert.Equal(b, past < 0, len(b.sent) > 0, "%s: %v later", name, past)
				b.after(time.Minute)
				assert.Len(b, b.tried, tried, "nothing is tried any more")
			})
		}
	}
}

// What may have been executed is not sent again, but for the end of a hold.
func TestWhatIsSentLater(t *testing.T) {
	const ticket = 7
	each := func(n int64) *[]int64 { return &[]int64{n} }
	type sent struct{ ends, charges int64 } // 0, 0: nothing is sent
	for _, rule := range []struct {
		name            string
		r               bucket.Request
		later           bool // nobody asks again
		unsent, unknown sent // if it was not sent before, and if that is not known
	}{
		{"a release", bucket.Request{Action: bucket.Charge, Each: each(0), Ends: each(1)}, true, sent{1, 0}, sent{1, 0}},
		{"an undo", bucket.Request{Action: bucket.Charge, Each: each(-1), Ends: each(1)}, true, sent{1, -1}, sent{1, 0}},
		{"a settlement", bucket.Request{Action: bucket.Charge, Each: each(1), Ends: each(1)}, true, sent{1, 1}, sent{}},
		{"a refund of no hold", bucket.Request{Action: bucket.Charge, N: -1}, true, sent{0, -1}, sent{}},
		{"a refund that its caller can repeat", bucket.Request{Action: bucket.Charge, N: -1}, false, sent{}, sent{}},
		{"a decision that takes slots", bucket.Request{Action: bucket.Take, N: 1}, false, sent{}, sent{1, 0}},
		{"one that holds slots for longer", bucket.Request{Action: bucket.Extend, Each: each(1), Ends: each(1)}, false, sent{}, sent{}},
		{"a look", bucket.Request{Action: bucket.Take, N: 1, Dry: true}, false, sent{}, sent{}},
	} {
		rule.r.Set, rule.r.Ticket = slots, ticket
		r := store.NewRequest("api", "k", rule.r)
		if rule.later {
			r = r.Later()
		}
		for _, unsent := range []bool{true, false} {
			want := rule.unknown
			if unsent {
				want = rule.unsent
			}
			later, some := Later(r, errors.New("away"), unsent)
			if assert.Equal(t, want != sent{}, some, "%s, unsent %v", rule.name, unsent); some {
				assert.Equal(t, want, sent{later.EndsOf(0), later.Of(0)}, "%s, unsent %v", rule.name, unsent)
				assert.EqualValues(t, ticket, later.Ticket, rule.name)
				assert.Positive(t, later.Until, rule.name)
			}
			for _, err := range []error{nil, &store.StateError{}, store.ErrApart, store.ErrClock} {
				_, some = Later(r, err, unsent)
				assert.False(t, some, "%s, after %v", rule.name, err)
			}
		}
	}
}
