package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// drawTiers returns one to three plans whose limits share some names.
func drawTiers(t *rapid.T) (plans []*bucket.Plan) {
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
		plans = append(plans, planOf(limits...))
	}
	return plans
}

// TestScriptAndTwinAgreeOnHolds sends random requests of every action to the script and to its twin. Their answers, and
// the bytes they store, must be the same. No bucket may have more than its room.
func TestScriptAndTwinAgreeOnHolds(t *testing.T) {
	client, keeper := redistest.Client(t), &redistest.Keeper{}
	client.AddHook(keeper)
	prefix := redistest.Prefix()
	lives := 0
	rapid.Check(t, func(t *rapid.T) {
		lives++
		key := strconv.Itoa(lives)
		now := time.UnixMicro(rapid.Int64Range(1e15, 3e15).Draw(t, "start"))
		store := New(client, WithPrefix(prefix), core.WithClock(func() time.Time { return now }), WithTimeout(time.Minute), WithDenyCache(0))
		plans := drawTiers(t)
		var state []byte
		var holds []bucket.Ending
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			move := rapid.Int64Range(0, 1_500_000).Draw(t, "move") / rapid.SampledFrom([]int64{1, 10, 1000, 1_500_000}).Draw(t, "part")
			if rapid.IntRange(0, 9).Draw(t, "back") == 0 {
				move *= -2
			}
			now = now.Add(time.Duration(move) * time.Microsecond)
			r := core.NewRequest("api", key, bucket.Request{Plan: rapid.SampledFrom(plans).Draw(t, "plan"),
				Action: bucket.Action(rapid.IntRange(int(bucket.Take), int(bucket.Lease)).Draw(t, "action")), N: rapid.Int64Range(0, 60).Draw(t, "n")})
			promises := r.Action == bucket.Reserve || r.Action == bucket.Await
			if r.Action >= bucket.Reserve {
				r.More = rapid.Int64Range(0, 100).Draw(t, "more")
				r.Ticket = rapid.Int64Range(1, bucket.AtOnce-1).Draw(t, "ticket")
				if promises {
					r.More *= 100_000
				} else {
					r.Ticket += bucket.FirstLease
				}
			}
			if r.Action == bucket.End || len(holds) > 0 && rapid.IntRange(0, 3).Draw(t, "ends") == 0 {
				r.Ends = bucket.Ending{Ticket: 77}
				if len(holds) > 0 {
					r.Ends = rapid.SampledFrom(holds).Draw(t, "ended")
				}
				r.Ends.Back = rapid.Int64Range(0, 60).Draw(t, "back")
			}
			got, err := store.Do(context.Background(), r)
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
				if !promises {
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
			said := func(a core.Answer) string {
				var w []bucket.Waits
				if a.Waits != nil {
					w = *a.Waits
				}
				if !promises {
					a.Due = 0
				}
				text := fmt.Sprintf("allowed %v, due %d, lent %d, waits %v", a.Allowed, a.Due, a.Lent, w)
				for i := range r.Plan.Rates {
					text += fmt.Sprintf(", level %v", *a.Levels.At(i))
				}
				return text
			}
			if said(got) != said(want) {
				t.Fatalf("%+v at %d on %x: the script answers %v, its twin %v", r, now.UnixMicro(), before, said(got), said(want))
			}
			kept := StoredState(t, client, redisKey(prefix, "api", key))
			if kept != string(state) {
				t.Fatalf("%+v at %d on %x: the script stored %x, its twin %x", r, now.UnixMicro(), before, kept, state)
			}
			if state == nil {
				continue
			}
			records, err := bucket.ParseRecords(nil, state)
			if err != nil {
				t.Fatal(err)
			}
			for i := range r.Plan.Rates {
				rate, l := &r.Plan.Rates[i], *want.Levels.At(i)
				if room := roomIn(records, rate, now.UnixMicro()); l.Units > room && next != nil {
					t.Fatalf("%+v: limit %d has %d units where holds leave room for %d", r, i, l.Units, room)
				}
			}
		}
	})
}

// roomIn returns how many units a limit's level may have beside its holds in records.
func roomIn(records []bucket.Record, rate *bucket.Rate, now int64) int64 {
	for _, s := range records {
		if s.Tag == rate.Tag {
			return rate.Full - s.Holds.Held(now)*rate.Unit
		}
	}
	return rate.Full
}
