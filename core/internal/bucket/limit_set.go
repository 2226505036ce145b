package bucket

import (
	"encoding/binary"
	"hash/fnv"
	"math/bits"
	"sync/atomic"
)

// LimitSet is the limits by which a request is decided. It never changes. When a
// policy's limits change, a new set is its successor.
type LimitSet struct {
	Rates  []Rate
	Packed string // Rates as bytes, for stores that decide elsewhere: '>I4I2BI7I7I7I7' each
	Simple bool   // all limits count requests, and none has a calendar or holds what is taken
	Holds  bool   // some limits hold what is taken: see [Rate.Hold]

	calendar  atomic.Pointer[calendars] // what Calendars has returned last
	wide      atomic.Pointer[calendars] // what it has returned last with wide
	successor atomic.Pointer[successor]
}

type successor struct {
	set    *LimitSet
	ofKeys map[string]*LimitSet // those of keys with limits of their own
}

// NewLimitSet returns the set of rates.
func NewLimitSet(rates []Rate) *LimitSet {
	p := &LimitSet{Rates: rates, Simple: true}
	var packed []byte
	for i := range rates {
		packed = rates[i].appendTo(packed)
		p.Holds = p.Holds || rates[i].Hold > 0
		p.Simple = p.Simple && !rates[i].Other && rates[i].Calendar == nil && rates[i].Hold == 0
	}
	p.Packed = string(packed)
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

// Replace makes next the successor of p, and those in ofKeys the successors for
// their keys.
func (p *LimitSet) Replace(next *LimitSet, ofKeys map[string]*LimitSet) {
	p.successor.Store(&successor{next, ofKeys})
}

// Successor returns the newest set of p's policy for a key: p itself if
// nothing has replaced it.
func (p *LimitSet) Successor(key string) *LimitSet {
	now, ofKeys := p, map[string]*LimitSet(nil)
	for next := p.successor.Load(); next != nil; next = now.successor.Load() {
		now, ofKeys = next.set, next.ofKeys
	}
	if own := ofKeys[key]; own != nil {
		return own
	}
	return now
}

// ForRefund returns the limits by which to refund tokens that were taken from a
// key under p: the limits of p that still exist, at their current rates; nil if
// there are none. Limits that p did not have were not charged.
func (p *LimitSet) ForRefund(key string) *LimitSet { return p.Successor(key).Common(p) }

// EachOf returns the numbers that back has for the limits of before, for those
// of p. some reports whether one is not 0.
func (p *LimitSet) EachOf(before *LimitSet, back []int64) (each []int64, some bool) {
	each = make([]int64, len(p.Rates))
	for i := range p.Rates {
		if j := before.IndexOf(p.Rates[i].Tag); j >= 0 {
			each[i] = back[j]
			some = some || back[j] != 0
		}
	}
	return each, some
}

// Recounts reports whether any limit counts requests in one of the two sets,
// and another unit in the other.
func (p *LimitSet) Recounts(before *LimitSet) bool {
	for i := range p.Rates {
		if j := before.IndexOf(p.Rates[i].Tag); j >= 0 && before.Rates[j].Other != p.Rates[i].Other {
			return true
		}
	}
	return false
}

// Common returns the set of those limits of p that before has too; nil if there
// are none.
func (p *LimitSet) Common(before *LimitSet) *LimitSet {
	if p == before {
		return p
	}
	return p.Of(func(r *Rate) bool { return before.IndexOf(r.Tag) >= 0 })
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

// DefinitionSize is the size of a definition as bytes, in the format
// '>I4I2BI7I7I7I7' of Lua's struct library.
const DefinitionSize = 35

// The modes in a definition.
const (
	plainMode byte = iota
	alignedMode
	calendarMode
	slotsMode
)

func (r *Rate) appendTo(packed []byte) []byte {
	packed = binary.BigEndian.AppendUint32(packed, r.Tag)
	packed = binary.BigEndian.AppendUint16(packed, r.StepsHash)
	mode := plainMode
	switch {
	case r.Calendar != nil || r.foreign:
		mode = calendarMode
	case r.Aligned:
		mode = alignedMode
	case r.Slots:
		mode = slotsMode
	}
	return append7(append(packed, mode), r.Capacity, r.Unit, r.Gain, r.Step)
}

// parseRate reads a definition. ok is false if this package can't have written
// it.
func parseRate(packed string) (rate *Rate, ok bool) {
	r := reader{packed, true}
	rate = &Rate{Tag: uint32(r.number(4)), StepsHash: uint16(r.number(2))}
	mode := byte(r.number(1))
	rate.Capacity, rate.Unit, rate.Gain, rate.Step = r.number(7), r.number(7), r.number(7), r.number(7)
	rate.Aligned, rate.foreign, rate.Slots = mode == alignedMode || mode == calendarMode, mode == calendarMode, mode == slotsMode
	high, full := bits.Mul64(uint64(rate.Capacity), uint64(rate.Unit))
	if !r.ok || mode > slotsMode || min(rate.Capacity, rate.Unit, rate.Gain, rate.Step) < 1 || high != 0 || full > maxUnits ||
		rate.Gain > int64(full)+MaxDebt || rate.Step > Latest {
		return nil, false
	}
	rate.Full, rate.maxSteps, rate.maxDebt = int64(full), Forever/rate.Step, MaxDebt
	return rate, true
}

// Same reports whether two rates are one definition.
func (r *Rate) Same(other *Rate) bool {
	return r == other || r.Tag == other.Tag && r.StepsHash == other.StepsHash && r.Capacity == other.Capacity && r.Unit == other.Unit &&
		r.Gain == other.Gain && r.Step == other.Step && r.Aligned == other.Aligned && r.Slots == other.Slots &&
		(r.Calendar != nil || r.foreign) == (other.Calendar != nil || other.foreign)
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
