package redisstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// Calls that are alike are decided together, in their order, as if each had
// been sent alone.
func TestBatchDecidesAsCallsOneAfterAnother(t *testing.T) {
	client := redistest.Client(t)
	sets := []*bucket.LimitSet{setOf(core.PerDay(10)), setOf(core.PerDay(7), core.PerHour(5)), setOf(core.PerDay(3).WithMode(core.Stepped))}
	rapid.Check(t, func(rt *rapid.T) {
		s, prefix := New(client), redistest.Prefix()
		now := fmt.Sprint(int64(1_700_000_000_000_000))
		var together, single []*call
		held := bucket.Request{Set: sets[2], Action: bucket.Reserve, N: 1, Ticket: 1}
		for _, key := range []string{"1c", "2c"} { // its requests do not take the fast path
			_, err := s.batches.scriptCall(t.Context(), []*call{callOf(prefix+key, store.NewRequest("api", "c", held))}, now, false)
			require.NoError(rt, err)
		}
		for range rapid.IntRange(1, 60).Draw(rt, "calls") {
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key")
			r := bucket.Request{Set: sets[key[0]-'a'], N: rapid.Int64Range(0, 3).Draw(rt, "n")}
			together = append(together, callOf(prefix+"1"+key, store.NewRequest("api", key, r)))
			single = append(single, callOf(prefix+"2"+key, store.NewRequest("api", key, r)))
		}
		got, err := s.batches.scriptCall(t.Context(), together, now, false)
		require.NoError(rt, err)
		sorted, places := groupAlike(single) // the order that the script keeps
		want := make([]outcome, len(single))
		for i, c := range sorted {
			place := i
			if places != nil {
				place = places[i]
			}
			one, err := s.batches.scriptCall(t.Context(), []*call{c}, now, false)
			require.NoError(rt, err)
			want[place] = one[0]
		}
		for i := range got {
			require.NoError(rt, got[i].err)
			assert.Equal(rt, see(want[i], single[i]), see(got[i], together[i]), "call %d", i)
		}
	})
}

// see is what an outcome tells its caller.
func see(o outcome, c *call) (s string) {
	for i := range c.request.Set.Rates {
		s += fmt.Sprintf("%v %d left, retry %d, full %d; ", o.answer.Allowed, o.answer.Remaining(c.request.Set, i),
			o.answer.RetryAfter(c.request.Set, i, c.request.N), o.answer.ResetAfter(c.request.Set, i))
	}
	return s
}

// A bucket may owe tokens. Of requests on it that are alike none is allowed,
// and other keys in the call are not affected.
func TestAlikeRequestsOnADebtAreDenied(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := New(redistest.Client(t), WithPrefix(redistest.Prefix()), core.WithClock(func() time.Time { return now }), WithTimeout(time.Minute), WithDenyCache(0))
	large := core.Limit{Name: "a", Capacity: 10, RefillRate: 1, RefillInterval: time.Second}
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{large}, OnFailure: core.FailClosed}))
	require.NoError(t, l.Debit(t.Context(), "debtor", 15))
	res, err := l.Peek(t.Context(), "debtor")
	require.NoError(t, err)
	require.False(t, res.Allowed, "premise: the bucket owes tokens")

	set := setOf(large)
	var calls []*call
	for _, key := range []string{"debtor", "debtor", "debtor", "other"} {
		calls = append(calls, callOf(redisKey(s.batches.prefix, "api", key), store.NewRequest("api", key, bucket.Request{Set: set, N: 1})))
	}
	outcomes, err := s.batches.server.send(t.Context(), calls, false)
	require.NoError(t, err)
	for i, want := range []bool{false, false, false, true} {
		require.NoError(t, outcomes[i].err)
		assert.Equal(t, want, outcomes[i].answer.Allowed, "request %d", i)
	}
}

// A batch takes the server about as long, whatever is in it: decisions that are
// not on the fast path take longer, so fewer go together.
func TestFewerSlowDecisionsGoTogether(t *testing.T) {
	plain := setOf(core.PerDay(10))
	fast := callOf("k", store.NewRequest("api", "k", bucket.Request{Set: plain, N: 1}))
	refund := callOf("k", store.NewRequest("api", "k", bucket.Request{Set: plain, N: 1, Action: bucket.Refund}))
	joint := callOf("k", fast.request)
	joint.others = []member{fast.member, fast.member}
	vast := callOf("k", fast.request)
	vast.others = slices.Repeat([]member{fast.member}, maxBatch)
	for name, c := range map[string]struct {
		calls []*call
		want  int
	}{
		"fast":             {slices.Repeat([]*call{fast}, 2*maxBatch), maxBatch},
		"few":              {slices.Repeat([]*call{fast}, 3), 3},
		"refunds":          {slices.Repeat([]*call{refund}, 2*maxBatch), maxBatch / slowWeight},
		"three together":   {slices.Repeat([]*call{joint}, 2*maxBatch), maxBatch / (3 * slowWeight)},
		"one that is more": {[]*call{vast, fast}, 1},
		"before it":        {[]*call{fast, vast, fast}, 1},
	} {
		n, weight := batchOf(c.calls)
		assert.Equal(t, c.want, n, name)
		assert.True(t, weight <= maxBatch || n == 1, "%s: a batch of %d weighs %d", name, n, weight)
	}
}
