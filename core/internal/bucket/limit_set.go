package bucket

import (
	"hash/fnv"
	"sync/atomic"
)

// LimitSet is the limits by which a request is decided. It never changes.
type LimitSet struct {
	Rates []Rate
	Plain bool // all limits refill by the clock, hold nothing and have no penalty
	Holds bool // some limits hold what is taken: see [Rate.Hold]

	// Sent is how a store on another server has last sent the limits.
	Sent atomic.Pointer[Sent]

	starts atomic.Pointer[starts] // what Starts has returned last
}

// Sent is a set's limits as a store sends them, for requests of N tokens of each.
type Sent struct {
	N      int64
	Limits any
}

// NewLimitSet returns the set of rates.
func NewLimitSet(rates []Rate) *LimitSet {
	p := &LimitSet{Rates: rates, Plain: true}
	for i := range rates {
		p.Holds = p.Holds || rates[i].Hold > 0
		p.Plain = p.Plain && rates[i].Hold == 0 && rates[i].Penalty == 0 && rates[i].Steps != OnCalendar
	}
	return p
}

// LeastCapacity is the smallest Capacity of the limits that count requests; 0
// if there are none.
func (p *LimitSet) LeastCapacity() (least int64) {
	for i := range p.Rates {
		if rate := &p.Rates[i]; !rate.Other && (least == 0 || rate.Capacity < least) {
			least = rate.Capacity
		}
	}
	return least
}

// CostOf is what a request takes from the i-th limit of p: of each its own
// tokens, or else n of those that count requests.
func (p *LimitSet) CostOf(i int, n int64, each *[]int64) int64 {
	switch {
	case each != nil:
		return (*each)[i]
	case p.Rates[i].Other:
		return 0
	}
	return n
}

// IndexOf returns the index of the rate with this tag, or -1.
func (p *LimitSet) IndexOf(tag uint32) int {
	for i := range p.Rates {
		if p.Rates[i].Tag == tag {
			return i
		}
	}
	return -1
}

// Of returns the set of those limits of p that include selects; nil if there are
// none.
func (p *LimitSet) Of(include func(*Rate) bool) *LimitSet {
	var rates []Rate
	for i := range p.Rates {
		if include(&p.Rates[i]) {
			rates = append(rates, p.Rates[i])
		}
	}
	switch len(rates) {
	case 0:
		return nil
	case len(p.Rates):
		return p
	}
	return NewLimitSet(rates)
}

// TagOf returns the tag of a limit's name. Names whose tag is 0 can't be used.
// Slots and tokens of one name have different tags, and so different buckets.
func TagOf(name string, m Mode) uint32 {
	h := fnv.New32a()
	if m == Concurrent {
		h.Write([]byte{0}) // no name has it
	}
	h.Write([]byte(name))
	return h.Sum32()
}
