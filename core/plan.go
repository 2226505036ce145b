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

// refundPlan is the plan by which tokens come back that were taken under p: those of p's limits that are left,
// as they are now. The rates of others would be wrong for the time since, and limits that p did not have were
// not charged. It is nil when none is left.
func (p *plan) refundPlan() *plan {
	now := p
	for next := p.successor.Load(); next != nil; next = next.successor.Load() {
		now = next
	}
	if now == p {
		return p
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

// limitMistakes reports what is wrong with the limits of a policy; field is how the caller writes the list.
func limitMistakes(policy string, limits []Limit, field string) []error {
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
	tags := make(map[uint32]string)
	for i, name := range namesOf(policy, limits) {
		tag := tagOf(name)
		if other, taken := tags[tag]; taken && other != name || tag == 0 {
			errs = append(errs, &ConfigError{field + "[" + strconv.Itoa(i) + "].Name", name,
				"has the same hash as " + strconv.Quote(other) + ", by which stores tell limits apart: choose another name"})
		}
		tags[tag] = name
	}
	return errs
}

// makePlan needs limits without mistakes, or a share of such.
func makePlan(policy string, limits []Limit) *plan {
	p := &plan{policy: unique.Make(policy), given: slices.Clone(limits), limits: make([]Limit, len(limits)), rates: make([]rate, len(limits))}
	var packed []byte
	for i, name := range namesOf(policy, limits) {
		l := limits[i]
		// The name may be a view of a buffer that its owner reuses.
		name = strings.Clone(name)
		if l.Name != "" {
			p.given[i].Name = name
		}
		l.Name = name
		p.limits[i] = l
		p.stepped = p.stepped || l.Mode == Stepped
		p.rates[i] = newRate(l, tagOf(name))
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

// namesOf are the names by which limits are told apart, in headers and in stored state: those they were
// given, or else derived ones. A sole limit has its policy's name, one of several its policy's and its interval.
func namesOf(policy string, limits []Limit) []string {
	names, taken := make([]string, len(limits)), make(map[string]bool)
	for _, l := range limits {
		taken[l.Name] = true
	}
	for i, l := range limits {
		if names[i] = l.Name; l.Name != "" {
			continue
		}
		name := policy
		if len(limits) > 1 {
			name += "-" + shortDuration(l)
		}
		names[i] = name
		for n := 2; taken[names[i]]; n++ {
			names[i] = name + "-" + strconv.Itoa(n)
		}
		taken[names[i]] = true
	}
	return names
}

// tagOf is what stored state tells limits apart by.
func tagOf(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}

// appendRate appends r in the form '>I4I2Bddddff' that script.lua reads.
func appendRate(packed []byte, r *rate) []byte {
	packed = binary.BigEndian.AppendUint32(packed, r.tag)
	packed = binary.BigEndian.AppendUint16(packed, r.steps)
	if r.aligned {
		packed = append(packed, 1)
	} else {
		packed = append(packed, 0)
	}
	for _, n := range [...]int64{r.capacity, r.unit, r.gain, r.step} {
		packed = binary.BigEndian.AppendUint64(packed, math.Float64bits(float64(n)))
	}
	packed = binary.BigEndian.AppendUint32(packed, math.Float32bits(r.fill.capacity))
	return binary.BigEndian.AppendUint32(packed, math.Float32bits(r.fill.pace))
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
