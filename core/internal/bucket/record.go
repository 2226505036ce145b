package bucket

import (
	"encoding/binary"
	"errors"
	"math"
)

// Record is a part of a key's stored state. Each limit has one with its level, and behind it one for each hold on its
// tokens, in the order of their ends.
//
//	         level                                      hold
//	Tag      the limit's                                the limit's
//	Steps    a hash of the steps it was written in      0
//	Tokens   at that instant; below 0: promised         held
//	At       µs since 1970: when it was written         until when they may be used
//	Keep     until then the record matters, in steps    its ticket
//	Fill     of all definitions that Keep stands for    0
type Record struct {
	Tag    uint32
	Steps  uint16
	Fill   Fill
	Tokens float64
	At     int64
	Keep   int64
}

// RecordSize is what a record takes as bytes, in the form '>I4I2dI7I7ff'.
const RecordSize = 36

var (
	// ErrUnreadable is the error of state that is not a list of records.
	ErrUnreadable = errors.New("is not a rate limit state")
	// ErrCrowded is the error of a key that has too many limits.
	ErrCrowded = errors.New("is in use under more than 256 limits")
)

// appendTo appends s as bytes.
func (s *Record) appendTo(state []byte) []byte {
	state = binary.BigEndian.AppendUint32(state, s.Tag)
	state = binary.BigEndian.AppendUint16(state, s.Steps)
	state = binary.BigEndian.AppendUint64(state, math.Float64bits(s.Tokens))
	for _, n := range [...]int64{s.At, s.Keep} {
		var eight [8]byte
		binary.BigEndian.PutUint64(eight[:], uint64(n))
		state = append(state, eight[1:]...)
	}
	state = binary.BigEndian.AppendUint32(state, math.Float32bits(s.Fill.Capacity))
	return binary.BigEndian.AppendUint32(state, math.Float32bits(s.Fill.Pace))
}

// ParseRecords appends the records in state to records. It returns ErrUnreadable for bytes that this package did not
// write; it may not notice all.
func ParseRecords[B ~string | ~[]byte](records []Record, state B) ([]Record, error) {
	if len(state) == 0 || len(state)%RecordSize != 0 {
		return nil, ErrUnreadable
	}
	for ; len(state) > 0; state = state[RecordSize:] {
		var b [2 + RecordSize]byte // a free byte before each instant makes it a uint64
		copy(b[:14], state)
		copy(b[15:22], state[14:21])
		copy(b[23:], state[21:RecordSize])
		s := Record{
			Tag:    binary.BigEndian.Uint32(b[0:]),
			Steps:  binary.BigEndian.Uint16(b[4:]),
			Tokens: math.Float64frombits(binary.BigEndian.Uint64(b[6:])),
			At:     int64(binary.BigEndian.Uint64(b[14:])),
			Keep:   int64(binary.BigEndian.Uint64(b[22:])),
			Fill:   Fill{math.Float32frombits(binary.BigEndian.Uint32(b[30:])), math.Float32frombits(binary.BigEndian.Uint32(b[34:]))},
		}
		if !s.valid() {
			return nil, ErrUnreadable
		}
		records = append(records, s)
	}
	return records, nil
}

// valid reports whether the numbers of s are in their ranges. NaN never is.
func (s *Record) valid() bool {
	return s.Tokens >= -Forever && s.Tokens <= Forever && s.At < Forever && s.Keep < Forever &&
		s.Fill.Capacity >= 0 && s.Fill.Capacity <= Forever && s.Fill.Pace >= -Forever && s.Fill.Pace <= Forever
}

// maxOthers bounds the limits that a key is kept for besides those of the request at hand.
const maxOthers = 256

// stored is a key's records, in the order of a plan's rates. Its zero value is that of a key that does not exist.
type stored struct {
	own    []Record // the level of each rate; Tag 0: the limit was not used yet, so it starts full
	holds  [][]hold // on each rate's tokens; nil when there are none on any
	others []Record // of limits that the plan does not have
}

// arrange puts records into the order of p's rates, in s. Records of other limits are kept as long as they matter: when
// two versions of a policy are in use at once, neither forgets what the other's limits lost. The common case, one
// record for each rate, costs no allocation, and s.own is records then.
func (s *stored) arrange(p *Plan, records []Record, now int64) error {
	if p.matches(records) {
		s.own = records
		return nil
	}
	s.own = make([]Record, len(p.Rates))
	seen, others := make(map[uint32]bool), 0
	for len(records) > 0 {
		// A level, and the holds that follow it
		level, rest := records[0], records[1:]
		n := 0
		for n < len(rest) && rest[n].Tag == level.Tag {
			n++
		}
		holds, ok := readHolds(rest[:n])
		if !ok || level.Tag == 0 || seen[level.Tag] {
			return ErrUnreadable
		}
		seen[level.Tag] = true
		if i := p.indexOf(level.Tag); i >= 0 {
			s.own[i] = level
			if len(holds) > 0 {
				s.hold(i, holds)
			}
		} else if level.Keep > now {
			if others++; others > maxOthers {
				return ErrCrowded
			}
			s.others = append(s.others, records[:1+n]...)
		}
		records = rest[n:]
	}
	return nil
}

// holdsOf returns the holds on the i-th rate's tokens.
func (s *stored) holdsOf(i int) []hold {
	if s.holds == nil {
		return nil
	}
	return s.holds[i]
}

// hold sets the holds on the i-th rate's tokens.
func (s *stored) hold(i int, holds []hold) {
	if s.holds == nil {
		s.holds = make([][]hold, len(s.own))
	}
	s.holds[i] = holds
}
