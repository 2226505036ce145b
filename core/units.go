package core

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// Units is what a request takes, by the unit: {"tokens": 1200} is 1 request and
// 1,200 tokens. A request counts as one unless Units says otherwise: {Requests:
// 0, "tokens": 1200} takes tokens alone. A unit takes its number from every
// limit that counts it. No unit has capitals.
type Units map[string]int64

// requests is how many requests u counts as.
func (u Units) requests() int64 {
	if n, given := u[Requests]; given {
		return n
	}
	return 1
}

// floors returns what of each limit of p must be left.
func (u Units) floors(p *limitSet) *[]int64 {
	floors := make([]int64, len(p.units))
	for i, unit := range p.units {
		floors[i] = min(u[unit], maxCapacity)
	}
	return &floors
}

// share returns a share of u, rounded up.
func (u Units) share(share float64) Units {
	if u == nil {
		return nil
	}
	part := make(Units, len(u))
	for unit, n := range u {
		part[unit] = int64(math.Ceil(float64(n) * share))
	}
	return part
}

// check returns what is wrong with u, of which counts knows the units.
func (u Units) check(counts func(unit string) bool) error {
	if len(u) == 0 {
		return nil
	}
	for _, unit := range slices.Sorted(maps.Keys(u)) { // always the same error
		if u[unit] < 0 {
			return fmt.Errorf("%w: %d %s", ErrCost, u[unit], printable.Text(printable.Clip(unit, maxName)))
		}
		if !counts(unit) && (unit != Requests || u[unit] > 0) {
			return fmt.Errorf("%w: %s%s", ErrUnit, strconv.Quote(printable.Clip(unit, maxName)), meantUnit(unit, counts))
		}
	}
	return nil
}

// of returns those of u that counts knows.
func (u Units) of(counts func(unit string) bool) Units {
	its := maps.Clone(u)
	maps.DeleteFunc(its, func(unit string, _ int64) bool { return !counts(unit) })
	return its
}

// meantUnit returns a hint at the unit that was probably meant, or "".
func meantUnit(unit string, counts func(unit string) bool) string {
	unit = strings.ToLower(unit)
	for _, meant := range [...]string{unit, unit + "s", strings.TrimSuffix(unit, "s")} {
		if counts(meant) {
			return " (did you mean " + strconv.Quote(meant) + "?)"
		}
	}
	return ""
}

// taken remembers, for many goroutines, the units that callers take; nil: none.
type taken struct {
	requests atomic.Bool // apart from the others, because nearly every decision looks
	others   sync.Map    // the names of units
}

// add notes that callers take a unit.
func (t *taken) add(unit string) {
	if t == nil {
		return
	}
	if unit == Requests {
		t.requests.Store(true)
		return
	}
	if _, known := t.others.Load(unit); !known {
		t.others.Store(strings.Clone(unit), true) // it may be a view of a buffer that its owner reuses
	}
}

// uncounted returns the taken units that counts does not know.
func (t *taken) uncounted(counts func(unit string) bool) (units []string) {
	if t == nil {
		return nil
	}
	t.others.Range(func(unit, _ any) bool {
		if !counts(unit.(string)) {
			units = append(units, unit.(string))
		}
		return true
	})
	if t.requests.Load() && !counts(Requests) {
		units = append(units, Requests)
	}
	slices.Sort(units)
	return units
}

// unitUse notices a unit that limits count and nobody takes.
type unitUse struct {
	over      atomic.Bool // all units are taken, or the warning was given
	decisions atomic.Int64
	units     []string
	taken     []atomic.Bool // by unit
}

// untakenFor is after how many decisions a unit that none took is reported.
const untakenFor = 2000

// newUnitUse returns nil if units, which limits count, are requests alone.
func newUnitUse(units []string) *unitUse {
	units = slices.Compact(slices.Sorted(slices.Values(units)))
	if len(units) == 1 && units[0] == Requests {
		return nil
	}
	return &unitUse{units: units, taken: make([]atomic.Bool, len(units))}
}

// take notes what was taken, beside requests as a decision counts them.
func (u *unitUse) take(units Units) {
	if u == nil || u.over.Load() {
		return
	}
	missing := false
	for i, unit := range u.units {
		if units[unit] > 0 {
			u.taken[i].Store(true)
		}
		missing = missing || !u.taken[i].Load()
	}
	if !missing {
		u.over.Store(true)
	}
}

// untaken counts a decision. After many it returns, once, the untaken units.
func (u *unitUse) untaken() (units []string) {
	if u.decisions.Add(1) != untakenFor || u.over.Swap(true) {
		return nil
	}
	for i, unit := range u.units {
		if !u.taken[i].Load() {
			units = append(units, unit)
		}
	}
	return units
}
