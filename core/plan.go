package core

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unique"
)

// plan is a policy's limits, checked, named and in whole numbers. They never change.
type plan struct {
	policy unique.Handle[string] // its name

	given  []Limit // as configured
	limits []Limit // each with its name
	rates  []rate
	packed string // the limits as script.lua reads them

	policyField string   // the RateLimit-Policy field of HeadersIETF
	draft6Field string   // and of HeadersDraft6
	members     []string // the limits' names as the RateLimit field has them
	capacities  []string // and their capacities in digits

	stepped bool // one of the limits is Stepped: a bucket's steps count from its first use

	successor atomic.Pointer[plan] // what a SetPolicy put in its place
}

// forReturns are the limits to which comes back what was taken under p: p's, as they are now. The rates of
// others would be wrong for the time since, and limits that p did not have were not charged. It is nil when
// none is left.
func (p *plan) forReturns() *plan {
	now, sole := p, len(p.rates) == 1
	for next := p.successor.Load(); next != nil; next = next.successor.Load() {
		now, sole = next, sole && len(next.rates) == 1
	}
	if now == p || sole { // sole limits are one whatever their names
		return now
	}
	common := &plan{policy: now.policy, stepped: now.stepped}
	var packed []byte
	for i := range now.rates {
		if r := &now.rates[i]; p.indexOf(r.tag) >= 0 {
			common.rates, common.limits = append(common.rates, *r), append(common.limits, now.limits[i])
			packed = appendRate(packed, r)
		}
	}
	if len(common.rates) == 0 {
		return nil
	}
	common.packed = string(packed)
	return common
}

// maxLimits bounds the limits of a policy, of which each costs every decision.
const maxLimits = 64

// limitMistakes reports what is wrong with a policy's limits; field is how the caller writes the list.
func limitMistakes(limits []Limit, field string) []error {
	if len(limits) == 0 {
		return []error{&ConfigError{field, len(limits), "limits: at least one is required"}}
	}
	if len(limits) > maxLimits {
		return []error{&ConfigError{field, len(limits), "limits: at most " + strconv.Itoa(maxLimits) + " can hold together"}}
	}
	var errs []error
	names := make(map[string]int)
	for i, l := range limits {
		element := field + "[" + strconv.Itoa(i) + "]."
		errs = append(errs, l.mistakes(element)...)
		if l.Name == "" {
			continue
		}
		if first, taken := names[l.Name]; taken {
			errs = append(errs, &ConfigError{element + "Name", l.Name,
				"is the name of " + field + "[" + strconv.Itoa(first) + "] already"})
			continue
		}
		names[l.Name] = i
	}
	return errs
}

// makePlan needs limits without mistakes, or a share of such.
func makePlan(policy string, limits []Limit) *plan {
	names := make(map[string]bool)
	for _, l := range limits {
		names[l.Name] = true
	}
	p := &plan{policy: unique.Make(policy), given: slices.Clone(limits), limits: make([]Limit, len(limits)), rates: make([]rate, len(limits))}
	tags := make(map[uint16]bool)
	var packed []byte
	for i, l := range limits {
		// The name may be a view of a buffer that its owner reuses.
		l.Name = strings.Clone(l.Name)
		p.given[i].Name = l.Name
		tag := tagOf(l, limits[:i])
		for tag == 0 || tag >= leasedTag || tags[tag] { // 0 marks a limit that is not stored
			tag++
		}
		tags[tag] = true
		if l.Name == "" {
			l.Name = nameFor(policy, l, len(limits), names)
			names[l.Name] = true
		}
		p.limits[i] = l
		p.stepped = p.stepped || l.Mode == Stepped
		p.rates[i] = newRate(l, tag)
		packed = appendRate(packed, &p.rates[i])
	}
	p.packed = string(packed)
	p.policyField, p.draft6Field = policyFields(p.limits)
	p.members, p.capacities = headerTexts(p.limits)
	return p
}

// leastCapacity is the most that one request can take.
func (p *plan) leastCapacity() int64 {
	least := p.limits[0].Capacity
	for _, l := range p.limits {
		least = min(least, l.Capacity)
	}
	return least
}

// nameFor derives a name that is not in taken.
func nameFor(policy string, l Limit, count int, taken map[string]bool) string {
	name := policy
	if count > 1 {
		name += "-" + shortDuration(l)
	}
	unique := name
	for n := 2; ; n++ {
		if !taken[unique] {
			return unique
		}
		unique = name + "-" + strconv.Itoa(n)
	}
}

// tagOf identifies a limit among those of its policy, so that its tokens stay its own when others
// are added, removed or moved: by its name, or without one by its interval and how many unnamed
// ones with the same interval stand before it.
func tagOf(l Limit, before []Limit) uint16 {
	identity := "n" + l.Name
	if l.Name == "" {
		nth := 0
		for _, b := range before {
			if b.Name == "" && b.RefillInterval == l.RefillInterval {
				nth++
			}
		}
		identity = "i" + l.RefillInterval.String() + "#" + strconv.Itoa(nth)
	}
	h := fnv.New32a()
	h.Write([]byte(identity))
	sum := h.Sum32()
	return uint16(sum>>16) ^ uint16(sum)
}

// appendRate appends r in the form '>I2Bdddd' that script.lua reads.
func appendRate(packed []byte, r *rate) []byte {
	packed = binary.BigEndian.AppendUint16(packed, r.tag)
	if r.aligned {
		packed = append(packed, 1)
	} else {
		packed = append(packed, 0)
	}
	for _, n := range [...]int64{r.capacity, r.unit, r.gain, r.step} {
		packed = binary.BigEndian.AppendUint64(packed, math.Float64bits(float64(n)))
	}
	return packed
}

// shortDuration is the interval of l as people write it: 1m for 1m0s.
func shortDuration(l Limit) string {
	s := l.RefillInterval.String()
	for _, zero := range [...]string{"m0s", "h0m"} {
		if n := len(s) - len(zero); n > 0 && s[n:] == zero {
			s = s[:n+1]
		}
	}
	return s
}
