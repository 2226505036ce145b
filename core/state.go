package core

import (
	"encoding/binary"
	"math"
)

// record is a part of a key's stored state. Each limit has one with its level, and behind it one for each hold
// on its tokens, in the order of their ends.
//
//	         level                                      hold
//	tag      the limit's                                the limit's
//	steps    a hash of the steps it was written in      0
//	tokens   at that instant; below 0: promised         held
//	at       µs since 1970: when it was written         until when they may be used
//	keep     until then the record matters, in steps    its ticket
//	fill     of all definitions that keep stands for    0
type record struct {
	tag    uint32
	steps  uint16
	fill   fill
	tokens float64
	at     int64
	keep   int64
}

// recordSize is what a record takes in stored state: '>I4I2dI7I7ff' in script.lua.
const recordSize = 36

var (
	errUnreadable = &StateError{"is not a rate limit state"}
	errCrowded    = &StateError{"is in use under more than 256 limits"}
)

// appendRecord appends s to state.
func appendRecord(state []byte, s record) []byte {
	state = binary.BigEndian.AppendUint32(state, s.tag)
	state = binary.BigEndian.AppendUint16(state, s.steps)
	state = binary.BigEndian.AppendUint64(state, math.Float64bits(s.tokens))
	for _, n := range [...]int64{s.at, s.keep} {
		var eight [8]byte
		binary.BigEndian.PutUint64(eight[:], uint64(n))
		state = append(state, eight[1:]...)
	}
	state = binary.BigEndian.AppendUint32(state, math.Float32bits(s.fill.capacity))
	return binary.BigEndian.AppendUint32(state, math.Float32bits(s.fill.pace))
}

// parseRecords appends the records in state to records. State that no version of this library wrote is an
// error, whatever its bytes.
func parseRecords[B ~string | ~[]byte](records []record, state B) ([]record, error) {
	if len(state) == 0 || len(state)%recordSize != 0 {
		return nil, errUnreadable
	}
	for ; len(state) > 0; state = state[recordSize:] {
		var b [2 + recordSize]byte // a free byte before each instant makes it a uint64
		copy(b[:14], state)
		copy(b[15:22], state[14:21])
		copy(b[23:], state[21:recordSize])
		s := record{
			tag:    binary.BigEndian.Uint32(b[0:]),
			steps:  binary.BigEndian.Uint16(b[4:]),
			tokens: math.Float64frombits(binary.BigEndian.Uint64(b[6:])),
			at:     int64(binary.BigEndian.Uint64(b[14:])),
			keep:   int64(binary.BigEndian.Uint64(b[22:])),
			fill:   fill{math.Float32frombits(binary.BigEndian.Uint32(b[30:])), math.Float32frombits(binary.BigEndian.Uint32(b[34:]))},
		}
		// Written so that NaN fails it.
		if !(s.tokens >= -forever && s.tokens <= forever && s.at < forever && s.keep < forever &&
			s.fill.capacity >= 0 && s.fill.capacity <= forever && s.fill.pace >= -forever && s.fill.pace <= forever) {
			return nil, errUnreadable
		}
		records = append(records, s)
	}
	return records, nil
}

// maxOthers bounds the limits that a key is kept for besides those of the request at hand.
const maxOthers = 256

// stored is a key's state, in the order of a plan's rates. Its zero value is that of a key that does not exist.
type stored struct {
	own    []record // the level of each rate; tag 0: the limit was not used yet, so it starts full
	holds  [][]hold // on each rate's tokens; nil when there are none on any
	others []record // of limits that the plan does not have
}

// holdsOf are the holds on the i-th rate's tokens.
func (s *stored) holdsOf(i int) []hold {
	if s.holds == nil {
		return nil
	}
	return s.holds[i]
}

// arrange puts records into the order of p's rates, in s. What p's limits don't know is kept as long as it matters, as
// when two versions of a policy are in use at once: neither forgets what the other's limits lost. The common
// case, one record for each rate, costs no allocation, and own is records then.
func (p *plan) arrange(records []record, now int64, s *stored) error {
	if p.matches(records) {
		s.own = records
		return nil
	}
	s.own = make([]record, len(p.rates))
	seen, others := make(map[uint32]bool), 0
	for len(records) > 0 {
		level, rest := records[0], records[1:]
		n := 0
		for n < len(rest) && rest[n].tag == level.tag {
			n++
		}
		holds, ok := readHolds(rest[:n])
		if !ok || level.tag == 0 || seen[level.tag] {
			return errUnreadable
		}
		seen[level.tag] = true
		if i := p.indexOf(level.tag); i >= 0 {
			s.own[i] = level
			if len(holds) > 0 {
				s.hold(i, holds)
			}
		} else if level.keep > now {
			if others++; others > maxOthers {
				return errCrowded
			}
			s.others = append(s.others, records[:1+n]...)
		}
		records = rest[n:]
	}
	return nil
}

// hold sets the holds on the i-th rate's tokens.
func (s *stored) hold(i int, holds []hold) {
	if s.holds == nil {
		s.holds = make([][]hold, len(s.own))
	}
	s.holds[i] = holds
}

// matches reports whether records are the levels of p's rates, in their order, and nothing else.
func (p *plan) matches(records []record) bool {
	if len(records) != len(p.rates) {
		return false
	}
	for i := range records {
		if records[i].tag != p.rates[i].tag {
			return false
		}
	}
	return true
}

func (p *plan) indexOf(tag uint32) int {
	for i := range p.rates {
		if p.rates[i].tag == tag {
			return i
		}
	}
	return -1
}
