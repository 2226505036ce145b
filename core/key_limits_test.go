package core_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

var (
	keyLimitsRounds = flag.Int("keylimits", soak.Budget(15, 100), "how many random policies the limits of keys are checked with")
	keyLimitsSeed   = flag.Uint64("keylimits-seed", 0, "the first of their seeds; 0: any")
)

// How the limits of a key come about, and that what was used stays used: random
// policies, plans, overrides, exceptions and blocks change while requests take
// tokens and give them back. The oracle knows the table in docs/limits.md,
// and of a bucket only what is used of it. The clock stands still.
func TestLimitsOfKeysAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	base := *keyLimitsSeed
	if base == 0 {
		base = rand.Uint64()
	}
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		for i := range uint64(*keyLimitsRounds) {
			k := keyLimits{T: t, r: rand.New(rand.NewPCG(base+i, 1)), store: newStore(core.WithClock(limittest.NewClock().Now)), used: make(map[usedOf]tally)}
			if err := k.play(); err != nil {
				t.Fatalf("seed %d: %v\n%s", base+i, err, strings.Join(k.log, "\n"))
			}
		}
	})
}

// keyLimits plays one limiter.
type keyLimits struct {
	*testing.T

	r     *rand.Rand
	store core.Store
	log   []string

	limiter    *core.Limiter
	policy     core.Policy
	exceptions core.Exceptions
	views      []*keyView
	used       map[usedOf]tally
	taken      []*takenFrom
	units      bool // tokens were taken
}

// usedOf names a bucket's limit. Slots and tokens of one name are two.
type usedOf struct {
	key, name string
	slots     bool
}

// tally is what is used of a limit of a capacity, and what was cut because it
// has become smaller.
type tally struct{ used, cut, capacity int64 }

// at is what was used of a limit that has this capacity now.
func (k *keyLimits) at(u usedOf, capacity int64) tally {
	t, known := k.used[u]
	grown := capacity - t.capacity
	t.capacity = capacity
	switch {
	case !known || u.slots:
	case grown > 0:
		again := min(t.cut, grown)
		t.used, t.cut = t.used+again, t.cut-again
	default:
		over := max(0, t.used-capacity)
		t.used, t.cut = t.used-over, t.cut+over
	}
	return t
}

// amount is what a request takes of a limit of a capacity.
type amount struct{ n, capacity int64 }

// move takes so many times the amounts. What comes back pays what was used, and
// then what was cut. If nothing moves, nothing is stored.
func (k *keyLimits) move(times int64, amounts map[usedOf]amount) {
	next, moved := make(map[usedOf]tally), false
	for u, a := range amounts {
		t, n := k.at(u, a.capacity), times*a.n
		moved = moved || n > 0 || n < 0 && t.used+t.cut > 0
		if t.used += n; t.used < 0 {
			t.used, t.cut = 0, max(0, t.cut+t.used)
		}
		next[u] = t
	}
	if moved {
		maps.Copy(k.used, next)
	}
}

// keyView is a limiter that decides by a plan, or by limits that were given to
// WithLimits under an older policy.
type keyView struct {
	name    string
	limiter *core.Limiter
	plan    string
	given   []core.Limit
	policy  core.Policy // given: of which WithLimits was called
}

// takenFrom is a decision that took something.
type takenFrom struct {
	res   core.Result
	view  *keyView
	key   string
	took  map[usedOf]amount
	units core.Units
}

var keyLimitsKeys = []string{"ann", "bob", "user:" + strings.Repeat("x", 200)}

func (k *keyLimits) note(format string, args ...any) {
	k.log = append(k.log, fmt.Sprintf(format, args...))
}

// drawList draws limits with some of the names.
func (k *keyLimits) drawList(names []string) (list []core.Limit) {
	for _, i := range k.r.Perm(len(names)) {
		name, n := names[i], 2*(1+k.r.IntN(10))
		if len(list) > k.r.IntN(4) {
			break
		}
		var l core.Limit
		switch {
		case name == "t":
			l = core.PerHour(n).WithUnit("tokens").WithName(name)
		case name == "s":
			l = core.InFlight(n).WithName(name)
		default:
			l = []core.Limit{core.PerMinute(n), core.PerHour(n), core.PerDay(n)}[k.r.IntN(3)].WithName(name)
		}
		list = append(list, l)
	}
	return list
}

// drawPolicy draws a policy, whose own limits have no names in some.
func (k *keyLimits) drawPolicy() core.Policy {
	names := []string{"a", "b", "t", "s"}
	p := core.Policy{Name: "api", Shadow: k.r.IntN(8) == 0}
	if k.r.IntN(4) == 0 {
		p.Limits = []core.Limit{core.PerMinute(2 * (1 + k.r.IntN(10)))}
		if k.r.IntN(2) == 0 {
			p.Limits = append(p.Limits, core.PerDay(2*(1+k.r.IntN(10))))
		}
		names = []string{"t", "s", tableName(p, p.Limits, 0)}
	} else {
		p.Limits = append(k.drawList([]string{"b", "t", "s"}), core.PerHour(2*(1+k.r.IntN(10))).WithName("a"))
	}
	p.Plans = make(map[string][]core.Limit)
	for _, plan := range []string{"pro", "trial"} {
		if k.r.IntN(3) > 0 {
			p.Plans[plan] = k.drawList(append(names, "only "+plan))
		}
	}
	p.Overrides, p.Blocked = k.drawOverrides(p)
	return p
}

// drawOverrides draws overrides and blocks of keys under p.
func (k *keyLimits) drawOverrides(p core.Policy) (overrides map[string][]core.Limit, blocked []string) {
	var names []string
	for _, list := range append(slices.Collect(maps.Values(p.Plans)), p.Limits) {
		for i := range list {
			if name := tableName(p, list, i); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	overrides = make(map[string][]core.Limit)
	for _, key := range keyLimitsKeys {
		if k.r.IntN(2) == 0 {
			list := k.drawList(names)
			if k.r.IntN(4) == 0 && p.Limits[len(p.Limits)-1].Name == "" { // without a name
				list = []core.Limit{p.Limits[0]}
				list[0].Capacity = 2 * int64(1+k.r.IntN(10))
			}
			overrides[key] = list
		}
		if k.r.IntN(8) == 0 {
			blocked = append(blocked, key)
		}
	}
	return overrides, blocked
}

// tableName is the name of a limit among others, as Limit.Name documents it.
func tableName(p core.Policy, list []core.Limit, i int) string {
	l := list[i]
	if l.Name != "" {
		return l.Name
	}
	if len(list) == 1 {
		return p.Name
	}
	return p.Name + map[time.Duration]string{time.Minute: "-1m", time.Hour: "-1h", 24 * time.Hour: "-24h"}[l.RefillInterval]
}

// limitsOf returns the limits of a key by the table, and whether it is blocked.
func (k *keyLimits) limitsOf(v *keyView, key string) (limits []core.Limit, blocked bool) {
	p, row := k.policy, k.policy.Limits
	if v.given != nil {
		p, row = v.policy, v.given
	} else if plan, ok := p.Plans[v.plan]; ok {
		row = plan
	}
	for i, l := range row {
		limits = append(limits, l.WithName(tableName(p, row, i)))
	}
	for _, override := range [][]core.Limit{p.Overrides[key], k.exceptions.Overrides[key]} {
		var added []core.Limit
		named := make(map[string]core.Limit)
		for i, l := range override {
			peers := override
			if len(p.Limits) > 1 {
				peers = append(slices.Clone(override), core.Limit{})
			}
			name := tableName(p, peers, i)
			named[name] = l.WithName(name)
		}
		for i, l := range limits {
			if by, ok := named[l.Name]; ok {
				limits[i] = by
			}
			delete(named, l.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(named)) {
			added = append(added, named[name])
		}
		limits = append(limits, added...)
	}
	return limits, slices.Contains(p.Blocked, key) || slices.Contains(k.exceptions.Blocked, key)
}

func (k *keyLimits) of(key string, l core.Limit) usedOf {
	return usedOf{key, l.Name, l.Mode == core.Concurrent}
}

func (k *keyLimits) left(key string, l core.Limit) int64 {
	return max(0, l.Capacity-k.at(k.of(key, l), l.Capacity).used)
}

// costs returns what units take of a key's limits, and whether they are there.
func (k *keyLimits) costs(v *keyView, key string, units core.Units) (took map[usedOf]amount, allowed bool) {
	limits, blocked := k.limitsOf(v, key)
	took, allowed = make(map[usedOf]amount), !blocked
	for _, l := range limits {
		n := units[unitNamed(l)]
		took[k.of(key, l)] = amount{n, l.Capacity}
		allowed = allowed && n <= k.left(key, l)
	}
	return took, allowed
}

func unitNamed(l core.Limit) string {
	if l.Unit == "" {
		return core.Requests
	}
	return l.Unit
}

func (k *keyLimits) play() error {
	k.policy = k.drawPolicy()
	k.limiter = core.Must(core.NewLimiter(k.store, k.policy))
	k.note("policy %s", tableText(k.policy))
	k.views = []*keyView{{name: "own", limiter: k.limiter}}
	for range 40 {
		err := k.step()
		for _, v := range k.views {
			for _, key := range keyLimitsKeys {
				err = errors.Join(err, k.compare(v, key, key), k.compare(v, key, store.Key(key)))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func tableText(p core.Policy) string {
	return fmt.Sprintf("limits %v plans %v overrides %v blocked %.8q shadow %v", p.Limits, p.Plans, p.Overrides, p.Blocked, p.Shadow)
}

// compare compares a Peek with the oracle.
func (k *keyLimits) compare(v *keyView, key, asked string) error {
	res, err := v.limiter.Peek(k.Context(), asked)
	if err != nil {
		return err
	}
	want, _ := k.limitsOf(v, key)
	got, listed := res.Limits(), v.limiter.Limits(asked)
	if len(got) != len(want) || len(listed) != len(want) {
		return fmt.Errorf("%s %.8s has %v and lists %v, want %v", v.name, key, got, listed, want)
	}
	for _, l := range want {
		i := slices.IndexFunc(got, func(r core.LimitResult) bool { return r.Limit.Name == l.Name })
		if i < 0 || got[i].Limit.Capacity != l.Capacity || got[i].Remaining != k.left(key, l) || listed[i] != got[i].Limit {
			return fmt.Errorf("%s %.8s: want %v with %d left, got %+v, listed as %v", v.name, key, l, k.left(key, l), got, listed)
		}
	}
	return nil
}

func (k *keyLimits) step() error {
	v, key := k.views[k.r.IntN(len(k.views))], keyLimitsKeys[k.r.IntN(len(keyLimitsKeys))]
	n := int64(1 + k.r.IntN(6))
	ctx := k.Context()
	switch op := k.r.IntN(14); op {
	case 0:
		next := k.drawPolicy()
		k.note("SetPolicy %s", tableText(next))
		switch err := v.limiterOf(k).SetPolicy(next); {
		case err == nil:
			k.policy = next
		case k.units && strings.Contains(err.Error(), "RL117"):
		default:
			return err
		}
	case 1:
		var e core.Exceptions
		e.Overrides, e.Blocked = k.drawOverrides(k.policy)
		k.note("SetExceptions %v %.8q", e.Overrides, e.Blocked)
		k.exceptions = e
		return v.limiterOf(k).SetExceptions(e)
	case 2:
		for _, name := range slices.Sorted(maps.Keys(k.policy.Plans)) {
			if !slices.ContainsFunc(k.views, func(v *keyView) bool { return v.plan == name }) {
				k.note("WithPlan %s", name)
				k.views = append(k.views, &keyView{name: name, limiter: core.Must(v.limiterOf(k).WithPlan(name)), plan: name})
			}
		}
	case 3:
		if len(k.views) < 5 {
			given := k.drawList([]string{"a", "b", "t", "s"})
			k.note("WithLimits %v", given)
			k.views = append(k.views, &keyView{name: fmt.Sprint("given ", len(k.views)), limiter: core.Must(k.limiter.WithLimits(given...)), given: given, policy: k.policy})
		}
	case 4, 5, 6, 7:
		units := core.Units{core.Requests: n}
		ask := func() (core.Result, error) { return v.limiter.AllowN(ctx, key, n) }
		if op > 5 && k.countsTokens(v) {
			units["tokens"] = int64(k.r.IntN(6))
			k.units = true
			ask = func() (core.Result, error) { return v.limiter.AllowUnits(ctx, key, units) }
		}
		if !k.countsRequests(v, key) {
			return nil
		}
		took, want := k.costs(v, key, units)
		res, err := ask()
		k.note("%s %.8s Allow %v: %v", v.name, key, units, res.Allowed && !res.ShadowDenied)
		if err != nil || (res.Allowed && !res.ShadowDenied) != want {
			return fmt.Errorf("%s %.8s takes %v: want %v, got %v %v", v.name, key, units, want, res, err)
		}
		if want {
			k.take(&takenFrom{res: res, view: v, key: key, took: took, units: units})
		}
	case 8:
		limits, _ := k.limitsOf(v, key)
		if !k.countsRequests(v, key) {
			return nil
		}
		k.note("%s %.8s Refund %d", v.name, key, n)
		back := make(map[usedOf]amount)
		for _, l := range limits {
			u := k.of(key, l)
			back[u] = amount{0, l.Capacity}
			if unitNamed(l) == core.Requests && !u.slots {
				back[u] = amount{n, l.Capacity}
			}
		}
		k.move(-1, back)
		k.taken = slices.DeleteFunc(k.taken, func(t *takenFrom) bool { return t.key == key }) // what they took may be back already
		return v.limiter.Refund(ctx, key, n)
	case 9:
		k.note("%.8s Reset", key)
		maps.DeleteFunc(k.used, func(u usedOf, _ tally) bool { return u.key == key })
		k.taken = slices.DeleteFunc(k.taken, func(t *takenFrom) bool { return t.key == key })
		return v.limiter.Reset(ctx, key)
	case 10:
		return k.together(v, key, n)
	default:
		if len(k.taken) > 0 {
			i := k.r.IntN(len(k.taken))
			t := k.taken[i]
			k.taken = slices.Delete(k.taken, i, i+1)
			return k.end(t)
		}
	}
	return nil
}

// together has two limiters take of one key, and one of them of another.
func (k *keyLimits) together(v *keyView, key string, n int64) error {
	other := k.views[k.r.IntN(len(k.views))]
	key2 := keyLimitsKeys[k.r.IntN(len(keyLimitsKeys))]
	if other == v && key2 == key || v.shadow(k) || other.shadow(k) || !k.countsRequests(v, key) || !k.countsRequests(other, key2) {
		return nil
	}
	first, ok := k.costs(v, key, core.Units{core.Requests: n})
	before := maps.Clone(k.used)
	k.move(1, first)
	second, also := k.costs(other, key2, core.Units{core.Requests: 2})
	if k.move(-1, first); !ok || key != key2 { // two limiters of one bucket are asked one after another
		k.used = before
	}
	res, err := core.AllowTogether(k.Context(), core.Charge{Limiter: v.limiter, Key: key, Cost: n}, core.Charge{Limiter: other.limiter, Key: key2, Cost: 2})
	k.note("%s %.8s %d together with %s %.8s 2: %v", v.name, key, n, other.name, key2, res.Allowed)
	if err != nil || res.Allowed != (ok && also) {
		return fmt.Errorf("together: want %v and %v, got %v %v", ok, also, res.Allowed, err)
	}
	if res.Allowed {
		k.take(&takenFrom{res: res.Parts[0], view: v, key: key, took: first})
		k.take(&takenFrom{res: res.Parts[1], view: other, key: key2, took: second})
	}
	return nil
}

func (v *keyView) limiterOf(k *keyLimits) *core.Limiter {
	if v.given != nil {
		return k.limiter
	}
	return v.limiter
}

func (v *keyView) shadow(k *keyLimits) bool {
	if v.given != nil {
		return v.policy.Shadow
	}
	return k.policy.Shadow
}

func (k *keyLimits) countsTokens(v *keyView) bool {
	p := k.policy
	lists := [][]core.Limit{p.Limits}
	if v.given != nil {
		p = v.policy
		lists = [][]core.Limit{v.given}
	}
	for _, list := range append(lists, slices.Collect(maps.Values(p.Plans))...) {
		if slices.ContainsFunc(list, func(l core.Limit) bool { return l.Unit == "tokens" }) {
			return true
		}
	}
	return false
}

// countsRequests reports whether one of a key's limits counts requests:
// otherwise it depends on others whether a request is a mistake.
func (k *keyLimits) countsRequests(v *keyView, key string) bool {
	limits, _ := k.limitsOf(v, key)
	return slices.ContainsFunc(limits, func(l core.Limit) bool { return unitNamed(l) == core.Requests })
}

func (k *keyLimits) take(t *takenFrom) {
	k.move(1, t.took)
	k.taken = append(k.taken, t)
}

// end gives back what a decision took, under the limits by which it took that.
func (k *keyLimits) end(t *takenFrom) error {
	back := func(share func(u usedOf, took int64) int64) {
		amounts := make(map[usedOf]amount)
		for u, took := range t.took {
			amounts[u] = amount{share(u, took.n), took.capacity}
		}
		k.move(-1, amounts)
	}
	all := func(_ usedOf, took int64) int64 { return took }
	ctx := k.Context()
	switch how := k.r.IntN(3); {
	case how == 0:
		k.note("%s %.8s Release of %v", t.view.name, t.key, t.took)
		back(func(u usedOf, took int64) int64 {
			if u.slots {
				return took
			}
			return 0
		})
		return t.res.Release(ctx)
	case how == 1 && t.units["tokens"] > 0 && k.countsTokens(t.view) && !slices.ContainsFunc(slices.Collect(maps.Keys(t.took)), func(u usedOf) bool { return u.slots }):
		k.note("%s %.8s Settle of %v", t.view.name, t.key, t.took)
		back(func(u usedOf, took int64) int64 {
			if u.name == "t" {
				return took - 1
			}
			return 0
		})
		return t.res.Settle(ctx, core.Units{"tokens": 1})
	}
	k.note("%s %.8s Undo of %v", t.view.name, t.key, t.took)
	back(all)
	return t.res.Undo(ctx)
}
