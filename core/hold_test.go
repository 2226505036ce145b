package core

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// drawTiers is one to three lists of limits that share some names.
func drawTiers(t *rapid.T) (plans []*plan) {
	limit := rapid.Custom(func(t *rapid.T) Limit {
		return Limit{
			Capacity:       rapid.Int64Range(1, 200).Draw(t, "capacity"),
			RefillRate:     float64(rapid.Int64Range(1, 200).Draw(t, "rate")),
			RefillInterval: rapid.SampledFrom([]time.Duration{time.Second, 100 * time.Millisecond, time.Minute}).Draw(t, "interval"),
			Mode:           rapid.SampledFrom([]Mode{Continuous, Stepped, Aligned}).Draw(t, "mode"),
		}
	})
	for range rapid.IntRange(1, 3).Draw(t, "tiers") {
		limits := rapid.SliceOfN(limit, 1, 3).Draw(t, "limits")
		for i, name := range rapid.Permutation([]string{"a", "b", "c", "d"}).Draw(t, "names")[:len(limits)] {
			limits[i].Name = name
		}
		plans = append(plans, makePlan("api", limits))
	}
	return plans
}

// TestScriptAndTwinHoldAlike sends random requests of every action to the script and to its twin: their answers
// and what they store are the same to the last byte, and no bucket has more than its room.
func TestScriptAndTwinHoldAlike(t *testing.T) {
	client, keeper := redistest.Client(t), &redistest.Keeper{}
	client.AddHook(keeper)
	prefix := redistest.Prefix()
	lives := 0
	rapid.Check(t, func(t *rapid.T) {
		lives++
		key := strconv.Itoa(lives)
		now := time.UnixMicro(rapid.Int64Range(1e15, 3e15).Draw(t, "start"))
		store := NewRedisStore(client, WithPrefix(prefix), WithClock(func() time.Time { return now }), WithTimeout(time.Minute), WithDenyCache(0))
		plans := drawTiers(t)
		var state []byte
		var tickets []int64
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			move := rapid.Int64Range(0, 1_500_000).Draw(t, "move") / rapid.SampledFrom([]int64{1, 10, 1000, 1_500_000}).Draw(t, "part")
			if rapid.IntRange(0, 9).Draw(t, "back") == 0 {
				move *= -2
			}
			now = now.Add(time.Duration(move) * time.Microsecond)
			r := Request{policy: "api", key: key, plan: rapid.SampledFrom(plans).Draw(t, "plan"),
				action: action(rapid.IntRange(int(take), int(lease)).Draw(t, "action")), n: rapid.Int64Range(0, 60).Draw(t, "n")}
			if r.action >= reserve {
				r.more = rapid.Int64Range(0, 100).Draw(t, "more")
				r.ticket = rapid.Int64Range(1, atOnce-1).Draw(t, "ticket")
				tickets = append(tickets, r.ticket)
				if r.promises() {
					r.more *= 100_000
				} else {
					r.ticket += firstLease
				}
				tickets[len(tickets)-1] = r.ticket
			}
			if r.action == end || len(tickets) > 0 && rapid.IntRange(0, 3).Draw(t, "ends") == 0 {
				r.ends = ending{ticket: 77, back: rapid.Int64Range(0, 60).Draw(t, "back")}
				if len(tickets) > 0 {
					r.ends.ticket = rapid.SampledFrom(tickets).Draw(t, "ended")
				}
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
			if next != nil {
				state = next
				left := keeper.TTL(redisKey(prefix, "api", key))
				if left > ttl+time.Second+time.Millisecond {
					t.Fatalf("Redis keeps the key for %v, want %v and a second", left, ttl)
				}
			}
			said := func(a Answer) string {
				var w []waits
				if a.waits != nil {
					w = *a.waits
				}
				if !r.promises() {
					a.due = 0
				}
				return fmt.Sprintf("allowed %v, due %d, lent %d, levels %v, waits %v", a.Allowed, a.due, a.lent, a.levels.few[:len(r.plan.rates)], w)
			}
			if said(got) != said(want) {
				t.Fatalf("%+v at %d on %x: the script answers %v, its twin %v", r, now.UnixMicro(), before, said(got), said(want))
			}
			kept, _ := client.Get(context.Background(), redisKey(prefix, "api", key)).Result()
			if kept != string(state) {
				t.Fatalf("%+v at %d on %x: the script stored %x, its twin %x", r, now.UnixMicro(), before, kept, state)
			}
			if state == nil {
				continue
			}
			records, err := parseRecords(nil, state)
			if err != nil {
				t.Fatal(err)
			}
			var s stored
			if err := r.plan.arrange(records, now.UnixMicro(), &s); err != nil {
				t.Fatal(err)
			}
			for i := range r.plan.rates {
				rate, l := &r.plan.rates[i], *want.levels.at(i)
				if room := rate.room(held(s.holdsOf(i), now.UnixMicro())); l.units > room && next != nil {
					t.Fatalf("%+v: limit %d has %d units where holds leave room for %d", r, i, l.units, room)
				}
			}
		}
	})
}
