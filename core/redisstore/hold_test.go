package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// drawTiers returns one to three sets whose limits share some names.
func drawTiers(t *rapid.T) (sets []*bucket.LimitSet) {
	limit := rapid.Custom(func(t *rapid.T) core.Limit {
		return core.Limit{
			Capacity:       rapid.Int64Range(1, 200).Draw(t, "capacity"),
			RefillRate:     float64(rapid.Int64Range(1, 200).Draw(t, "rate")),
			RefillInterval: rapid.SampledFrom([]time.Duration{time.Second, 100 * time.Millisecond, time.Minute}).Draw(t, "interval"),
			Mode:           rapid.SampledFrom([]core.Mode{core.Continuous, core.Stepped, core.Aligned}).Draw(t, "mode"),
		}
	})
	for range rapid.IntRange(1, 3).Draw(t, "tiers") {
		limits := rapid.SliceOfN(limit, 1, 3).Draw(t, "limits")
		for i, name := range rapid.Permutation([]string{"a", "b", "c", "d"}).Draw(t, "names")[:len(limits)] {
			limits[i].Name = name
		}
		sets = append(sets, setOf(limits...))
	}
	return sets
}

// drawRequest draws a request of any action, which may end some of the holds.
func drawRequest(t *rapid.T, set *bucket.LimitSet, holds []bucket.Ending) bucket.Request {
	r := bucket.Request{Set: set,
		Action: bucket.Action(rapid.IntRange(int(bucket.Take), int(bucket.Lease)).Draw(t, "action")), N: rapid.Int64Range(0, 60).Draw(t, "n")}
	if r.Action >= bucket.Reserve {
		r.More = rapid.Int64Range(0, 100).Draw(t, "more")
		r.Ticket = rapid.Int64Range(1, bucket.AtOnce-1).Draw(t, "ticket")
		if r.Action == bucket.Lease {
			r.Ticket += bucket.FirstLease
		} else {
			r.More *= 100_000
		}
	}
	if r.Action == bucket.End || len(holds) > 0 && rapid.IntRange(0, 3).Draw(t, "ends") == 0 {
		r.Ends = bucket.Ending{Ticket: 77}
		if len(holds) > 0 {
			r.Ends = rapid.SampledFrom(holds).Draw(t, "ended")
		}
		r.Ends.Back = rapid.Int64Range(0, 60).Draw(t, "back")
	}
	if r.Action == bucket.End && len(holds) > 0 && rapid.Bool().Draw(t, "several") {
		others := rapid.SliceOfN(rapid.SampledFrom(holds), 1, 4).Draw(t, "others")
		for i := range others {
			others[i].Back = rapid.Int64Range(0, 60).Draw(t, "back")
		}
		r.EndsToo = &others
	}
	return r
}

// answerText returns what an answer to r says.
func answerText(r store.Request, a store.Answer) string {
	var w []bucket.Waits
	if a.Waits != nil {
		w = *a.Waits
	}
	if r.Action != bucket.Reserve && r.Action != bucket.Await {
		a.Due = 0
	}
	text := fmt.Sprintf("allowed %v, due %d, lent %d, waits %v", a.Allowed, a.Due, a.Lent, w)
	for i := range r.Set.Rates {
		text += fmt.Sprintf(", level %v", *a.Levels.At(i))
	}
	return text
}

// TestScriptAndReferenceAgreeOnHolds sends random requests of every action to
// the script and to the reference implementation. Their answers, and the bytes
// they store, must be the same. No bucket may have more than its room.
func TestScriptAndReferenceAgreeOnHolds(t *testing.T) {
	client, keeper := redistest.Client(t), &redistest.Keeper{}
	client.AddHook(keeper)
	prefix := redistest.Prefix()
	simulations := 0
	rapid.Check(t, func(t *rapid.T) {
		simulations++
		key := strconv.Itoa(simulations)
		now := time.UnixMicro(rapid.Int64Range(1e15, 3e15).Draw(t, "start"))
		s := New(client, WithPrefix(prefix), core.WithClock(func() time.Time { return now }), WithTimeout(time.Minute), WithDenyCache(0))
		sets := drawTiers(t)
		var state []byte
		var holds []bucket.Ending
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			move := rapid.Int64Range(0, 1_500_000).Draw(t, "move") / rapid.SampledFrom([]int64{1, 10, 1000, 1_500_000}).Draw(t, "part")
			if rapid.IntRange(0, 9).Draw(t, "back") == 0 {
				move *= -2
			}
			now = now.Add(time.Duration(move) * time.Microsecond)
			r := store.NewRequest("api", key, drawRequest(t, rapid.SampledFrom(sets).Draw(t, "set"), holds))
			got, err := s.Do(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			before := state
			want, next, ttl, err := r.Decide(state, now)
			if err != nil {
				t.Fatal(err)
			}
			if r.Action >= bucket.Reserve && want.Allowed {
				end := want.Due
				if r.Action == bucket.Lease {
					end = now.UnixMicro() + bucket.LeaseLife
				}
				holds = append(holds, bucket.Ending{Ticket: r.Ticket, At: end})
			}
			if next != nil {
				state = next
				remains, set := keeper.TTL(redisKey(prefix, "api", key))
				if most := LongestTTL(ttl); set && remains > most {
					t.Fatalf("Redis keeps the key for %v, want %v and up to %v", remains, ttl, most)
				}
			}
			if got, want := answerText(r, got), answerText(r, want); got != want {
				t.Fatalf("%+v at %d on %x: the script answers %v, the reference implementation %v", r, now.UnixMicro(), before, got, want)
			}
			kept := StoredState(t, client, redisKey(prefix, "api", key))
			if kept != string(state) {
				t.Fatalf("%+v at %d on %x: the script stored %x, the reference implementation %x", r, now.UnixMicro(), before, kept, state)
			}
			if next != nil {
				wantRoom(t, r, want, next, now.UnixMicro())
			}
		}
	})
}

// wantRoom checks that no limit of an answer has more than its holds leave room
// for.
func wantRoom(t *rapid.T, r store.Request, answer store.Answer, state []byte, now int64) {
	records, err := bucket.ParseRecords(nil, state)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Set.Rates {
		if room := roomIn(records, &r.Set.Rates[i], now); answer.Levels.At(i).Units > room {
			t.Fatalf("%+v: limit %d has %d units where holds leave room for %d", r, i, answer.Levels.At(i).Units, room)
		}
	}
}

// roomIn returns how many units a limit's level may have beside its holds in
// records.
func roomIn(records []bucket.Record, rate *bucket.Rate, now int64) int64 {
	for _, s := range records {
		if s.Tag() == rate.Tag && s.Holds != nil {
			return rate.Full - s.Holds.Held(now)*rate.Unit
		}
	}
	return rate.Full
}

// TestScriptAndReferenceAgreeOnManyHolds is TestScriptAndReferenceAgreeOnHolds
// on keys with hundreds of holds, in several blocks.
func TestScriptAndReferenceAgreeOnManyHolds(t *testing.T) {
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	prefix := redistest.Prefix()
	stepped := core.Limit{Capacity: 40, RefillRate: 3, RefillInterval: time.Second, Mode: core.Stepped}
	for seed, sets := range [][]*bucket.LimitSet{
		{setOf(core.PerSecond(10).WithBurst(100))},
		{setOf(stepped.WithName("a"), core.PerMinute(700).WithName("b"))},
		{setOf(core.Limit{Capacity: 5, RefillRate: 9, RefillInterval: time.Second, Mode: core.Aligned})},
		// Definitions of one limit in turns
		{setOf(core.PerSecond(10).WithBurst(100)), setOf(core.PerSecond(7).WithBurst(30))},
		{setOf(stepped), setOf(stepped.WithBurst(90)), setOf(core.PerSecond(3).WithBurst(50))},
	} {
		random := rand.New(rand.NewPCG(uint64(seed), 7))
		key, now := strconv.Itoa(seed), time.UnixMicro(17e14)
		s := New(client, WithPrefix(prefix), core.WithClock(func() time.Time { return now }), WithTimeout(time.Minute), WithDenyCache(0))
		var state []byte
		var holds []bucket.Ending
		most := 0
		for i := range 900 {
			now = now.Add(time.Duration(random.IntN(20_000)) * time.Microsecond)
			r := store.NewRequest("api", key, bucket.Request{Set: sets[random.IntN(1+random.IntN(len(sets)))], Action: bucket.Reserve, N: 1 + random.Int64N(3), More: bucket.Forever, Ticket: 1 + random.Int64N(bucket.AtOnce-1)})
			switch what := random.IntN(10); {
			case what == 0 && i > 300:
				r.Action, r.More, r.Ticket = bucket.Lease, 2, r.Ticket+bucket.FirstLease
			case what < 4 && i > 300, what < 7 && i > 600:
				r.Action, r.N = bucket.End, 0
				at := random.IntN(len(holds))
				r.Ends, holds = holds[at], slices.Delete(holds, at, at+1)
				if others := slices.Clone(holds[:random.IntN(1+len(holds)/4)]); i%7 == 0 && len(others) > 0 {
					r.EndsToo = &others
				}
			case what == 8:
				r.Action = bucket.Take
			case what == 9 && i%5 == 0:
				now = now.Add(-2 * time.Second)
			}
			got, err := s.Do(t.Context(), r)
			require.NoError(t, err)
			want, next, _, err := r.Decide(state, now)
			require.NoError(t, err)
			if next != nil {
				state = next
			}
			if r.Action >= bucket.Reserve && want.Allowed {
				end := want.Due
				if r.Action == bucket.Lease {
					end = now.UnixMicro() + bucket.LeaseLife
				}
				holds = append(holds, bucket.Ending{Ticket: r.Ticket, At: end, Back: random.Int64N(4)})
			}
			require.Equal(t, answerText(r, want), answerText(r, got), "step %d: %+v", i, r)
			require.Equal(t, string(state), StoredState(t, client, redisKey(prefix, "api", key)), "step %d: %+v at %d: what is stored", i, r, now.UnixMicro())
			most = max(most, len(state))
		}
		require.Greater(t, most, 200*bucket.HoldSize, "premise: there are hundreds of holds")
	}
}
