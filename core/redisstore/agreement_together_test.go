package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// TestStoresAgreeOnChargesTogether sends the same random charges of several
// limiters to the Lua script and to the reference implementation in Go in
// memory. Both must answer the same for each bucket.
func TestStoresAgreeOnChargesTogether(t *testing.T) { agreeTogether(t, limitdraw.AnyLimit) }

// TestStoresAgreeOnWhatIsHeldTogether is TestStoresAgreeOnChargesTogether with
// limits of slots, and limits whose estimates come back.
func TestStoresAgreeOnWhatIsHeldTogether(t *testing.T) { agreeTogether(t, limitdraw.HoldingLimit) }

func agreeTogether(t *testing.T, limit *rapid.Generator[core.Limit]) {
	t.Helper()
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		clock := limitdraw.Clock(t)
		stores := []core.Store{
			redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), core.WithClock(clock.Now), longTimeout),
			core.NewMemoryStore(core.WithClock(clock.Now)),
		}
		lists := rapid.SliceOfN(limitdraw.Limits(limit), 3, 3).Draw(t, "limits")
		limiters := make([][]*core.Limiter, len(stores))
		shadow := rapid.IntRange(0, 5).Draw(t, "shadow") // none of them, mostly
		for i, store := range stores {
			for p, limits := range lists {
				limiters[i] = append(limiters[i], core.Must(core.NewLimiter(store, core.Policy{
					Name: fmt.Sprint("p", p), Limits: limits, OnFailure: core.FailClosed, Shadow: p == shadow,
					Plans:     map[string][]core.Limit{"all": named(fmt.Sprint("p", p), lists[(p+1)%len(lists)])},
					Overrides: map[string][]core.Limit{"other": named(fmt.Sprint("p", p), lists[(p+1)%len(lists)])},
				})))
			}
		}
		retry := time.Duration(0)
		var taken [2][]core.Result // the parts of the decisions that were allowed
		for range rapid.IntRange(1, 20).Draw(t, "operations") {
			clock.Move(limitdraw.Move(lists[0], retry).Draw(t, "move"))
			if rapid.IntRange(0, 9).Draw(t, "back") == 0 {
				// No longer than a MemoryStore keeps a full bucket: the other
				// store may still know what it has forgotten.
				clock.Move(-min(limitdraw.Back.Draw(t, "by"), 10*time.Second))
			}
			if len(taken[0]) > 0 && rapid.IntRange(0, 2).Draw(t, "end") == 0 {
				var got [2]string
				n, how := rapid.IntRange(0, len(taken[0])-1).Draw(t, "part"), rapid.IntRange(0, 2).Draw(t, "how")
				for i := range stores {
					res := &taken[i][n]
					got[i] = fmt.Sprint([]func(context.Context) error{res.Release, res.Hold, res.Undo}[how](ctx))
				}
				if got[0] != got[1] {
					t.Fatalf("at %v, Redis and memory must agree on the end %d of part %d: %s, %s", clock.Now().UnixMicro(), how, n, got[0], got[1])
				}
				continue
			}
			parts := drawParts(t, lists)
			debit := rapid.IntRange(0, 4).Draw(t, "debit") == 0
			var got [2]string
			for i := range stores {
				if debit {
					got[i] = fmt.Sprint(limiters[i][parts[0].policy].DebitUnits(ctx, parts[0].key, parts[0].units))
					continue
				}
				var charges []core.Charge
				for _, c := range parts {
					l := limiters[i][c.policy]
					if c.tier {
						l = core.Must(l.WithLimits(lists[(c.policy+1)%len(lists)]...))
					}
					charges = append(charges, core.Charge{Limiter: l, Key: c.key, Units: c.units})
				}
				j, err := core.AllowTogether(ctx, charges...)
				if err != nil {
					t.Fatalf("AllowTogether: %v", err)
				}
				if got[i] = fmt.Sprint(j.Allowed, j.RetryAfter); j.Allowed {
					taken[i] = append(taken[i], j.Results...)
				}
				for n, res := range j.Results {
					got[i] += fmt.Sprintf("\n  %s %+v", parts[n].key, see(res, nil))
				}
				retry = j.RetryAfter
			}
			if got[0] != got[1] {
				t.Fatalf("at %v, Redis and memory must agree on %+v of %+v:\n%s\n%s", clock.Now().UnixMicro(), parts, lists, got[0], got[1])
			}
		}
	})
}

// part is one charge. tier is set if it is under the limits of another policy,
// as by WithLimits.
type part struct {
	policy int
	key    string
	tier   bool
	units  core.Units
}

// drawParts draws charges of several policies with these limits, on keys of
// which "other" has limits of its own.
func drawParts(t *rapid.T, lists [][]core.Limit) (parts []part) {
	places := rapid.Permutation([]int{0, 1, 2, 3, 4, 5}).Draw(t, "places")[:rapid.IntRange(1, 4).Draw(t, "charges")]
	if rapid.IntRange(0, 2).Draw(t, "one bucket twice") == 0 {
		places = append(places, places[0])
	}
	for n, place := range places {
		c := part{policy: place / 2, key: []string{"key", "other"}[place%2]}
		c.tier = n > 0 && c.key == "key" && rapid.IntRange(0, 3).Draw(t, "tier") == 0
		limits := lists[(c.policy+place%2)%len(lists)]
		if c.tier {
			limits = lists[(c.policy+1)%len(lists)]
		}
		c.units = limitdraw.Units(limits).Draw(t, "units")
		parts = append(parts, c)
	}
	return parts
}
