package bucket

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"sync/atomic"
)

// Plan is the limits that a request is decided by. It never changes.
type Plan struct {
	Rates  []Rate
	Packed string // Rates in bytes, for stores that decide elsewhere: '>I4I2Bddddff' each
	Plain  bool   // all limits count requests, and none has a calendar

	calendar  atomic.Pointer[calendars]
	wide      atomic.Pointer[calendars]
	successor atomic.Pointer[successor]
}

// successor is what has taken the place of a plan.
type successor struct {
	plan   *Plan
	ofKeys map[string]*Plan // other plans that some keys have now
}

// NewPlan returns the plan of rates.
func NewPlan(rates []Rate) *Plan {
	p := &Plan{Rates: rates, Plain: true}
	var packed []byte
	for i := range rates {
		packed = rates[i].appendTo(packed)
		p.Plain = p.Plain && !rates[i].Other && rates[i].Calendar == nil
	}
	p.Packed = string(packed)
	return p
}

// LeastCapacity is the most tokens that one request can take of the limits that count requests; 0 if there are none.
func (p *Plan) LeastCapacity() (least int64) {
	for i := range p.Rates {
		if rate := &p.Rates[i]; !rate.Other && (least == 0 || rate.Capacity < least) {
			least = rate.Capacity
		}
	}
	return least
}

// Replace says that next has taken the place of p, and for some keys other plans have.
func (p *Plan) Replace(next *Plan, ofKeys map[string]*Plan) {
	p.successor.Store(&successor{next, ofKeys})
}

// Successor returns the plan that has taken the place of p for a key, or p.
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

// ForRefund returns the plan for refunding tokens that were taken from a key under p, from all limits that count requests: the
// limits of p that still exist, as they are now. Former rates are wrong for the time since a change, and limits that p did not
// have were not charged. It returns nil if no limit of p is left.
func (p *Plan) ForRefund(key string) *Plan { return p.Successor(key).Common(p) }

// Refunding returns the plan and the tokens of each of its limits for refunding tokens that were taken under before: back
// from each limit of that. The plan is nil if there are none to refund.
func (p *Plan) Refunding(before *Plan, back []int64) (*Plan, *[]int64) {
	each, any := make([]int64, len(p.Rates)), false
	for i := range p.Rates {
		if j := before.indexOf(p.Rates[i].Tag); j >= 0 {
			each[i] = back[j]
			any = any || back[j] != 0
		}
	}
	if !any {
		return nil, nil
	}
	return p, &each
}

// Recounts reports whether a limit counts requests in one of p and before, and something else in the other.
func (p *Plan) Recounts(before *Plan) bool {
	for i := range p.Rates {
		if j := before.indexOf(p.Rates[i].Tag); j >= 0 && before.Rates[j].Other != p.Rates[i].Other {
			return true
		}
	}
	return false
}

// Common returns the plan of those of p's limits that before has too: p if it has all of them, nil if it has none.
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

// indexOf returns the index of the rate with a tag, or -1.
func (p *Plan) indexOf(tag uint32) int {
	for i := range p.Rates {
		if p.Rates[i].Tag == tag {
			return i
		}
	}
	return -1
}

// appendTo appends r in the form '>I4I2Bddddff'.
func (r *Rate) appendTo(packed []byte) []byte {
	packed = binary.BigEndian.AppendUint32(packed, r.Tag)
	packed = binary.BigEndian.AppendUint16(packed, r.Steps)
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

// TagOf returns the tag of a limit's name: 0 is none.
func TagOf(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}
