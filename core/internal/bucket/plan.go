package bucket

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"sync/atomic"
)

// Plan is the limits by which a request is decided. It never changes. When a policy's limits change, a new plan is its successor.
type Plan struct {
	Rates  []Rate
	Packed string // Rates as bytes, for stores that decide elsewhere: '>I4I2Bddddff' each
	Simple bool   // all limits count requests, and none has a calendar

	calendar  atomic.Pointer[calendars] // what Calendars has returned last
	wide      atomic.Pointer[calendars] // what it has returned last with wide
	successor atomic.Pointer[successor]
}

// successor is what has replaced a plan.
type successor struct {
	plan   *Plan
	ofKeys map[string]*Plan // the plans of keys with limits of their own
}

// NewPlan returns the plan of rates.
func NewPlan(rates []Rate) *Plan {
	p := &Plan{Rates: rates, Simple: true}
	var packed []byte
	for i := range rates {
		packed = rates[i].appendTo(packed)
		p.Simple = p.Simple && !rates[i].Other && rates[i].Calendar == nil
	}
	p.Packed = string(packed)
	return p
}

// LeastCapacity is the smallest Capacity of the limits that count requests; 0 if there are none.
func (p *Plan) LeastCapacity() (least int64) {
	for i := range p.Rates {
		if rate := &p.Rates[i]; !rate.Other && (least == 0 || rate.Capacity < least) {
			least = rate.Capacity
		}
	}
	return least
}

// CostOf is what a request takes from the i-th limit of p: of each its own tokens, or else n of those that count requests.
func (p *Plan) CostOf(i int, n int64, each *[]int64) int64 {
	switch {
	case each != nil:
		return (*each)[i]
	case p.Rates[i].Other:
		return 0
	}
	return n
}

// Replace makes next the successor of p, and those in ofKeys the successors for their keys.
func (p *Plan) Replace(next *Plan, ofKeys map[string]*Plan) {
	p.successor.Store(&successor{next, ofKeys})
}

// Successor returns the newest plan of p's policy for a key: p itself if nothing has replaced it.
func (p *Plan) Successor(key string) *Plan {
	now, ofKeys := p, map[string]*Plan(nil)
	for next := p.successor.Load(); next != nil; next = now.successor.Load() {
		now, ofKeys = next.plan, next.ofKeys
	}
	if own := ofKeys[key]; own != nil {
		return own
	}
	return now
}

// ForRefund returns the plan by which to refund tokens that were taken from a key under p: the limits of p that still exist, at
// their current rates. It returns nil if there are none. Limits that p did not have were not charged, so they get nothing back.
func (p *Plan) ForRefund(key string) *Plan { return p.Successor(key).Common(p) }

// Refunding returns the Plan and the Each of a [Request] that refunds, to limits of p, tokens that were taken under before. back
// has these tokens for each limit of before. Limits that p lacks get nothing. Both are nil if nothing is left to refund.
func (p *Plan) Refunding(before *Plan, back []int64) (*Plan, *[]int64) {
	each, some := make([]int64, len(p.Rates)), false
	for i := range p.Rates {
		if j := before.indexOf(p.Rates[i].Tag); j >= 0 {
			each[i] = back[j]
			some = some || back[j] != 0
		}
	}
	if !some {
		return nil, nil
	}
	return p, &each
}

// Recounts reports whether any limit counts requests in one of the two plans, and another unit in the other.
func (p *Plan) Recounts(before *Plan) bool {
	for i := range p.Rates {
		if j := before.indexOf(p.Rates[i].Tag); j >= 0 && before.Rates[j].Other != p.Rates[i].Other {
			return true
		}
	}
	return false
}

// Common returns a plan of those limits of p that before has too; nil if there are none.
func (p *Plan) Common(before *Plan) *Plan {
	if p == before {
		return p
	}
	var rates []Rate
	for i := range p.Rates {
		if before.indexOf(p.Rates[i].Tag) >= 0 {
			rates = append(rates, p.Rates[i])
		}
	}
	if len(rates) == 0 {
		return nil
	}
	return NewPlan(rates)
}

// indexOf returns the index of the rate with this tag, or -1.
func (p *Plan) indexOf(tag uint32) int {
	for i := range p.Rates {
		if p.Rates[i].Tag == tag {
			return i
		}
	}
	return -1
}

// appendTo appends r in the format '>I4I2Bddddff'.
func (r *Rate) appendTo(packed []byte) []byte {
	packed = binary.BigEndian.AppendUint32(packed, r.Tag)
	packed = binary.BigEndian.AppendUint16(packed, r.StepsHash)
	aligned := byte(0)
	switch {
	case r.Calendar != nil:
		aligned = 2
	case r.Aligned:
		aligned = 1
	}
	packed = append(packed, aligned)
	for _, n := range [...]int64{r.Capacity, r.Unit, r.Gain, r.Step} {
		packed = binary.BigEndian.AppendUint64(packed, math.Float64bits(float64(n)))
	}
	packed = binary.BigEndian.AppendUint32(packed, math.Float32bits(r.Fill.Capacity))
	return binary.BigEndian.AppendUint32(packed, math.Float32bits(r.Fill.Pace))
}

// TagOf returns the tag of a limit's name. Names whose tag is 0 can't be used.
func TagOf(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}
