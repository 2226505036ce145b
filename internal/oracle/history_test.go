package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
	_ "time/tzdata" // so that the same locations are there everywhere

	"github.com/tokenbucket-go/ratelimit/core"
)

// history is what two processes ask of two keys, a and b, which two policies of
// the same names decide. It is drawn from a seed, and plays alike each time.
type history struct {
	limits    map[string][][]core.Limit // by policy and version; mostly there is one
	setPolicy bool                      // versions change by SetPolicy, not WithLimits
	forgets   bool                      // a store may forget a key that is full
	expires   bool                      // keys of Redis expire by the history's clock
	greedy    bool                      // it mostly asks for all that is left
	oneShard  bool                      // a MemoryStore has all keys under one lock
	start     int64
	ops       []op
}

// op is one step of a history. The numbers in it are drawn when it is played.
type op struct {
	kind kind
	seed uint64
}

type kind string

const (
	allow    kind = "allow"
	atMost   kind = "at most"
	together kind = "together"
	peek     kind = "peek"
	reserve  kind = "reserve"
	cancel   kind = "cancel"
	refund   kind = "refund"
	debit    kind = "debit"
	undo     kind = "undo"
	settle   kind = "settle"
	release  kind = "release"
	hold     kind = "hold"
	reset    kind = "reset"
	fresh    kind = "fresh" // a request of another key
	retry    kind = "retry" // wait RetryAfter
	rest     kind = "rest"  // wait ResetAfter
	move     kind = "move"  // the clock
	back     kind = "back"
)

// draw returns the history of a seed.
func draw(seed uint64) *history {
	r := rand.New(rand.NewPCG(seed, 0))
	h := &history{
		limits:    map[string][][]core.Limit{"b": {{drawLimit(r).WithName("sole")}}},
		setPolicy: chance(r, 0.5),
		greedy:    chance(r, 0.4),
		start:     time.Date(pick(r, 2020, 2020, 2020, 1971, 2080), 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() + r.Int64N(20*365*day),
	}
	a := drawLimits(r)
	h.limits["a"] = [][]core.Limit{a}
	if chance(r, 0.25) {
		versions := [][]core.Limit{a, vary(r, a), vary(r, a)}
		for ; !remember(versions...); versions = [][]core.Limit{a, vary(r, a), vary(r, a)} {
			a = drawLimits(r)
		}
		h.limits["a"] = versions[:pick(r, 2, 2, 3)]
		h.setPolicy = h.setPolicy && sameUnits(h.limits["a"])
		for len(h.limits["b"]) < len(h.limits["a"]) {
			h.limits["b"] = append(h.limits["b"], h.limits["b"][0])
		}
	}
	kinds := []kind{allow, allow, allow, allow, move, move, move, move, retry, rest}
	for _, k := range []kind{atMost, together, peek, reserve, cancel, refund, debit, undo, settle} {
		if chance(r, 0.4) {
			kinds = append(kinds, k, k)
		}
	}
	if slices.ContainsFunc(slices.Concat(h.limits["a"]...), func(l core.Limit) bool { return define(l).holds() }) {
		kinds = append(kinds, release, release, settle, settle, hold)
	}
	if chance(r, 0.15) {
		kinds = append(kinds, back)
	}
	// A key that has expired, or was dropped, decides as a full one for the
	// definition that wrote it last, unless the clock is set back.
	if h.forgets = !slices.Contains(kinds, back) && (len(h.limits["a"]) == 1 || chance(r, 0.5)); h.forgets {
		h.expires, h.oneShard = chance(r, 0.5), chance(r, 0.5)
		kinds = append(kinds, pick(r, allow, reset, fresh))
	}
	if len(h.limits["a"]) == 1 && !slices.Contains(kinds, back) && chance(r, 0.3) {
		drawPenalties(r, h.limits["a"][0])
		drawPenalties(r, h.limits["b"][0])
	}
	for range 20 + r.IntN(100) {
		h.ops = append(h.ops, op{pick(r, kinds...), r.Uint64()})
	}
	return h
}

// drawLimits draws the limits of a policy: one or several, of requests and of
// tokens, slots and estimates among them.
func drawLimits(r *rand.Rand) (limits []core.Limit) {
	drawHold := func() time.Duration { return pick(r, time.Millisecond, time.Second, time.Minute, 24*time.Hour) }
	maxHold, one := drawHold(), chance(r, 0.6) // for all
	for i := range pick(r, 1, 1, 1, 2, 2, 3, 5) {
		l := drawLimit(r)
		if !one {
			maxHold = drawHold()
		}
		switch r.IntN(8) {
		case 0:
			l = core.InFlight(1 + r.IntN(5)).WithMaxHold(maxHold)
		case 1:
			l = l.WithUnit("tokens").WithMaxHold(maxHold)
		case 2:
			l = l.WithUnit("tokens")
		}
		limits = append(limits, l.WithName(fmt.Sprint("limit-", i)))
	}
	return limits
}

// drawPenalties gives some limits a penalty, whose debt is at most a full bucket.
func drawPenalties(r *rand.Rand, limits []core.Limit) {
	for i, l := range limits {
		if d := define(l); chance(r, 0.5) && !d.holds() && d.exact && !d.capped {
			fill := float64(l.Capacity) / l.RefillRate * float64(l.RefillInterval)
			limits[i].Penalty = min(max(time.Millisecond, time.Duration(r.Float64()*fill)).Truncate(time.Microsecond), 30*24*time.Hour)
			if float64(limits[i].Penalty) > fill || !valid(limits[i]) {
				limits[i].Penalty = 0
			}
		}
	}
}

// mostTokens is the largest capacity.
const mostTokens = 999_999_999_999_999

// drawLimit draws a limit of requests that refills.
func drawLimit(r *rand.Rand) core.Limit {
	l := core.Limit{
		Capacity: pick(r, 1+r.Int64N(10), 1+r.Int64N(10), 1+r.Int64N(1000), 1+r.Int64N(1e12), 1+r.Int64N(mostTokens)),
		RefillInterval: pick(r, time.Microsecond, 250*time.Microsecond, time.Millisecond, time.Second, 7*time.Second, time.Minute,
			time.Hour, time.Second/3+1, time.Duration(1000+r.Int64N(int64(time.Minute)))),
		Mode: pick(r, core.Continuous, core.Stepped, core.Aligned),
	}
	if chance(r, 0.15) {
		l = drawCalendar(r, l)
	}
	l.RefillRate = pick(r, 1, float64(l.Capacity), float64(1+r.Int64N(l.Capacity)), 0.1, 2.5, 1.0/3)
	if !valid(l) {
		return drawLimit(r)
	}
	return l
}

// drawCalendar returns a limit by a calendar. Clocks in some of the places skip
// a midnight each year, or show it twice.
func drawCalendar(r *rand.Rand, l core.Limit) core.Limit {
	const days = 24 * time.Hour
	place := core.Must(time.LoadLocation(pick(r, "UTC", "Europe/Berlin", "America/Havana", "Asia/Beirut", "Atlantic/Azores",
		"Australia/Lord_Howe", "America/St_Johns", "Asia/Kolkata")))
	l.RefillInterval = pick(r, days, 7*days, core.Month, 3*core.Month, 12*core.Month)
	if l = l.In(place); chance(r, 0.4) {
		l.RefillInterval = pick(r, l.RefillInterval, 2*days, 14*days, 2*core.Month)
		l = l.Anchored(time.Date(2015+r.IntN(20), time.Month(1+r.IntN(12)), pick(r, 1, 15, 28, 29, 30, 31), r.IntN(24), 30, 0, 0, place))
	}
	return l
}

// vary returns another version of a policy's limits.
func vary(r *rand.Rand, limits []core.Limit) []core.Limit {
	limits = slices.Clone(limits)
	for i, l := range limits {
		if l.Mode == core.Concurrent {
			limits[i].Capacity = 1 + r.Int64N(5)
			continue
		}
		if chance(r, 0.5) {
			limits[i] = drawLimit(r)
			limits[i].Name, limits[i].Unit, limits[i].MaxHold = l.Name, l.Unit, l.MaxHold
		}
		limits[i].Capacity = max(1, int64(float64(l.Capacity)*pick(r, 1.0/30, 0.5, 1, 1.5, 30)))
	}
	i := r.IntN(len(limits))
	switch r.IntN(8) {
	case 0:
		if len(limits) > 1 {
			limits = slices.Delete(limits, i, i+1)
		}
	case 1:
		limits = slices.Insert(limits, i, drawLimit(r).WithName("new"))
	case 2: // slots and tokens of one name are two limits
		if l := limits[i]; l.Mode == core.Concurrent {
			limits[i] = drawLimit(r).WithName(l.Name)
		} else {
			limits[i] = core.InFlight(1 + r.Int64N(5)).WithName(l.Name)
		}
	case 3:
		slices.Reverse(limits)
	}
	return limits
}

// remember reports whether a bucket under one version remembers all that the
// others took. Stores count in whole numbers below 2^51, and in no step more
// than a full bucket.
func remember(versions ...[]core.Limit) bool {
	most, finest := int64(0), int64(0)
	for _, limits := range versions {
		if !valid(limits...) {
			return false
		}
		for _, l := range limits {
			if d := define(l); !d.slots() {
				if !d.exact || d.capped {
					return false
				}
				most, finest = max(most, d.Capacity), max(finest, d.den)
			}
		}
	}
	return most <= 1e6 && finest <= 1<<49/max(1, most)
}

// sameUnits reports whether all versions count the same units. SetPolicy refuses
// one that no longer counts what callers take.
func sameUnits(versions [][]core.Limit) bool {
	counts := func(limits []core.Limit, tokens bool) bool {
		return slices.ContainsFunc(limits, func(l core.Limit) bool { return (l.Unit == "tokens") == tokens })
	}
	return !slices.ContainsFunc(versions, func(limits []core.Limit) bool {
		return counts(limits, true) != counts(versions[0], true) || counts(limits, false) != counts(versions[0], false)
	})
}

// valid reports whether a policy may have the limits.
func valid(limits ...core.Limit) bool {
	return core.Policy{Name: "a", Limits: limits}.Validate() == nil
}

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
