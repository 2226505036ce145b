package core

import (
	"context"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// TestLeases has several holders lease from one key, spend, settle, die and come back, while others take and
// refund: the script and its twin agree to the last byte of stored state, a bucket and all that is on lease
// are never more than the capacity, and a bucket without leases would admit whatever is admitted.
func TestLeases(t *testing.T) {
	client, keeper := redistest.Client(t), &redistest.Keeper{}
	client.AddHook(keeper)
	prefix := redistest.Prefix()
	lives := 0
	rapid.Check(t, func(t *rapid.T) {
		lives++
		key := strconv.Itoa(lives)
		now := time.UnixMicro(rapid.Int64Range(1e15, 3e15).Draw(t, "start"))
		store := NewRedisStore(client, WithPrefix(prefix), WithClock(func() time.Time { return now }), WithTimeout(time.Minute), WithDenyCache(0))
		limits := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Limit {
			return Limit{
				Capacity:       rapid.Int64Range(1, 200).Draw(t, "capacity"),
				RefillRate:     float64(rapid.Int64Range(1, 200).Draw(t, "rate")),
				RefillInterval: rapid.SampledFrom([]time.Duration{time.Second, 100 * time.Millisecond, time.Minute}).Draw(t, "interval"),
				Mode:           rapid.SampledFrom([]Mode{Continuous, Stepped, Aligned}).Draw(t, "mode"),
			}
		}), 1, 3).Draw(t, "limits")
		plan := makePlan("api", limits)
		var state []byte
		var leases []*holding
		hold := func(a Answer) *holding {
			end := floorTo(a.now, leaseWindow) + 2*leaseWindow
			return &holding{given: a, asked: now, until: now.Add(duration(end - a.now)), left: a.lent}
		}

		// plain is the bucket as it would be without leases.
		var plain []byte
		charge := func(r Request) Answer {
			r.policy, r.key, r.plan = "api", key, plan
			a, next, _, err := r.Decide(plain, now)
			if err != nil {
				t.Fatal(err)
			}
			if next != nil {
				plain = next
			}
			return a
		}
		use := func(n int64) {
			if n > 0 && !charge(Request{action: take, n: n}).Allowed {
				t.Fatalf("%d tokens are admitted at %d that a bucket without leases does not have: %+v", n, now.UnixMicro(), limits)
			}
		}

		ask := func(r Request) Answer {
			r.policy, r.key, r.plan = "api", key, plan
			got, err := store.Do(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			want, next, ttl, err := r.Decide(state, now)
			if err != nil {
				t.Fatal(err)
			}
			if next != nil {
				state = next
				if left := keeper.TTL(redisKey(prefix, "api", key)); left > ttl+time.Second+time.Millisecond {
					t.Fatalf("Redis keeps the key for %v, want %v and a second", left, ttl)
				}
				if end := time.UnixMicro(floorTo(want.now, leaseWindow) + 2*leaseWindow); want.lent > 0 && now.Add(ttl).Before(end) {
					t.Fatalf("state is kept for %v, but what is on lease may be used until %v from now", ttl, end.Sub(now))
				}
			}
			stored, _ := client.Get(context.Background(), redisKey(prefix, "api", key)).Result()
			if stored != string(state) {
				t.Fatalf("%+v at %d: the script stored %x, its twin %x", r, now.UnixMicro(), stored, state)
			}
			if got.Allowed != want.Allowed || got.lent != want.lent || got.levels.few != want.levels.few {
				t.Fatalf("%+v: the script answers %+v, its twin %+v", r, got, want)
			}
			if got.Allowed && r.takes() {
				use(r.n)
			}
			return got
		}
		inBounds := func() {
			a := ask(Request{action: take})
			out := int64(0)
			for _, h := range leases {
				if !h.over(now) {
					out += h.left
				}
			}
			for i, l := range limits {
				if level := a.levels.few[i].units; level+out*plan.rates[i].unit > plan.rates[i].full {
					t.Fatalf("the bucket has %d units of %d and %d tokens are on lease: more than its capacity of %d",
						level, plan.rates[i].unit, out, l.Capacity)
				}
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "operations") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 1_500_000).Draw(t, "move")/rapid.SampledFrom([]int64{1, 10, 1000}).Draw(t, "part")) * time.Microsecond)
			switch rapid.SampledFrom([]string{"lease", "lease", "renew", "settle", "spend", "take", "refund", "die"}).Draw(t, "what") {
			case "lease":
				a := ask(Request{action: lease, n: rapid.Int64Range(1, 5).Draw(t, "cost"), terms: &terms{extra: rapid.Int64Range(0, 100).Draw(t, "extra")}})
				leases = append(leases, hold(a))
			case "renew", "settle":
				if len(leases) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(leases)-1).Draw(t, "lease")
				old := leases[i]
				r := Request{action: lease, terms: &terms{taken: old.given.lent, at: floorTo(old.given.now, leaseWindow), back: old.left}}
				if rapid.Bool().Draw(t, "again") {
					r.n, r.terms.extra = 1, rapid.Int64Range(0, 100).Draw(t, "extra")
				}
				a := ask(r)
				leases[i] = hold(a)
			case "spend":
				if len(leases) > 0 {
					l := leases[rapid.IntRange(0, len(leases)-1).Draw(t, "lease")]
					if l.over(now) {
						continue
					}
					spent := rapid.Int64Range(0, l.left).Draw(t, "spent")
					l.left -= spent
					use(spent)
				}
			case "take":
				ask(Request{action: take, n: rapid.Int64Range(0, 10).Draw(t, "cost")})
			case "refund":
				r := Request{action: refund, n: rapid.Int64Range(0, 100).Draw(t, "refund")}
				ask(r)
				charge(r)
			case "die":
				if len(leases) > 0 {
					leases = leases[:len(leases)-1]
				}
			}
			inBounds()
		}
	})
}
