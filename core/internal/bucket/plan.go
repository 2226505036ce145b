package bucket

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"sync/atomic"
)

// Plan is the limits that a request is decided by. It never changes.
type Plan struct {
	Rates   []Rate
	Packed  string // Rates in bytes, for stores that decide elsewhere: '>I4I2Bddddff' each
	Stepped bool   // one of the limits is Stepped: its steps count from the bucket's first use

	successor atomic.Pointer[Plan]
}

// NewPlan returns the plan of rates.
func NewPlan(rates []Rate) *Plan {
	p := &Plan{Rates: rates}
	var packed []byte
	for i := range rates {
		packed = rates[i].appendTo(packed)
		p.Stepped = p.Stepped || rates[i].Step > 1 && !rates[i].Aligned
	}
	p.Packed = string(packed)
	return p
}

// LeastCapacity is the most tokens that one request can take.
func (p *Plan) LeastCapacity() int64 {
	least := p.Rates[0].Capacity
	for i := range p.Rates {
		least = min(least, p.Rates[i].Capacity)
	}
	return least
}

// Replace says that next has taken the place of p.
func (p *Plan) Replace(next *Plan) { p.successor.Store(next) }

// ForRefund returns the plan for refunding tokens that were taken under p: the limits of p that still exist, as they
// are now. Former rates are wrong for the time since a change, and limits that p did not have were not charged. It
// returns nil if no limit of p is left.
func (p *Plan) ForRefund() *Plan {
	now := p
	for next := p.successor.Load(); next != nil; next = next.successor.Load() {
		now = next
	}
	if now == p {
		return p
	}
	var common []Rate
	for i := range now.Rates {
		if p.indexOf(now.Rates[i].Tag) >= 0 {
			common = append(common, now.Rates[i])
		}
	}
	if len(common) == 0 {
		return nil
	}
	return NewPlan(common)
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
	if r.Aligned {
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
