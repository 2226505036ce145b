package replay

import (
	"math"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

const (
	maxCapacity = 999_999_999_999_999 // as core.Limit has it
	maxPercent  = 1_000_000           // the highest rate to try, of the one that the policy has
)

// knob is something about a policy that can be raised.
type knob struct {
	what, limit string
	changed     []int
	largest     int64                                       // the last setting to try
	set         func(setting int64) ([]core.Limit, float64) // the limits and the factor; setting is from 1
}

// knobs returns what can be raised: the burst of each limit, its rate, both
// together, and both of all limits. Quotas, which are Aligned, have one number,
// and so one knob. A limit that denied none of the clients has no knobs.
func (t *Traffic) knobs(p core.Policy, clients []int32) (list []knob) {
	most := t.mostTaken(clients)
	for i, l := range p.Limits {
		most := most[l.Unit]
		if most <= l.Capacity {
			continue
		}
		if l.Mode != core.Aligned {
			list = append(list, knob{"burst", l.Name, []int{i}, min(most, maxCapacity) - l.Capacity, func(more int64) ([]core.Limit, float64) {
				limits := slices.Clone(p.Limits)
				limits[i].Capacity += more
				return limits, float64(limits[i].Capacity) / float64(l.Capacity)
			}}, knob{"rate", l.Name, []int{i}, maxPercent, func(more int64) ([]core.Limit, float64) {
				limits := slices.Clone(p.Limits)
				limits[i].RefillRate = raised(l.RefillRate, more)
				return limits, limits[i].RefillRate / l.RefillRate
			}})
		}
		what := "rate and burst"
		if l.Mode == core.Aligned {
			what = "quota"
		}
		list = append(list, both(p, what, l.Name, []int{i}, most))
	}
	if len(p.Limits) > 1 {
		all := make([]int, len(p.Limits))
		for i := range all {
			all[i] = i
		}
		list = append(list, both(p, "all limits", "", all, 0))
	}
	return list
}

// both raises rate and burst of some limits by one factor.
func both(p core.Policy, what, name string, changed []int, most int64) knob {
	largest := int64(maxPercent)
	if len(changed) == 1 { // at this the burst alone is enough for every client
		largest = most*100/max(1, p.Limits[changed[0]].Capacity) + 1
	}
	return knob{what, name, changed, largest, func(more int64) ([]core.Limit, float64) {
		limits := slices.Clone(p.Limits)
		for _, i := range changed {
			l := &limits[i]
			sole := float64(l.Capacity) == l.RefillRate // 100/min stays a limit of one number
			l.RefillRate = raised(l.RefillRate, more)
			if l.Capacity = int64(math.Ceil(raised(float64(l.Capacity), more))); sole {
				l.RefillRate = float64(l.Capacity)
			}
		}
		first := changed[0]
		return limits, limits[first].RefillRate / p.Limits[first].RefillRate
	}}
}

// raised is v and more percent of it: a whole number, rounded up, if v is whole
// and large enough for that to be a small difference.
func raised(v float64, more int64) float64 {
	r := v * (100 + float64(more)) / 100
	if v == math.Trunc(v) && v >= 20 {
		return math.Min(maxCapacity, math.Ceil(r-1e-9))
	}
	return math.Round(r*1e9) / 1e9
}

// mostTaken returns, by unit, the most that one of the clients takes in all: a
// burst of that much never denies one.
func (t *Traffic) mostTaken(clients []int32) map[string]int64 {
	most := make(map[string]int64)
	for _, key := range clients {
		sums := make(map[string]int64)
		for _, ev := range t.of(int(key)) {
			sums[""] = plus(sums[""], ev.cost)
			if ev.units >= 0 {
				for unit, n := range t.units[ev.units] {
					if unit != core.Requests {
						sums[unit] = plus(sums[unit], n)
					}
				}
			}
		}
		for unit, n := range sums {
			most[unit] = max(most[unit], n)
		}
	}
	most[core.Requests] = most[""]
	return most
}

func plus(a, b int64) int64 { return min(maxCapacity, a+b) }
