package bucket

import (
	"encoding/binary"
	"errors"
	"math"
)

// Record is a part of a key's stored state. Each limit has one with its level, then one of an earlier definition if that
// stays beside it (see older.go), and then one for each hold on its tokens, in the order of their ends.
//
//	         level                                      hold
//	Tag      the limit's                                the limit's
//	Steps    a hash of the steps it was written in      0
//	Tokens   at that instant; below 0: promised         held
//	At       µs since 1970: when it was written         until when they may be used
//	Keep     until then the record matters, in steps    its ticket
//	Fill     of the definition that wrote it            0
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

// wrote reports whether r is the definition that wrote s.
func (r *Rate) wrote(s *Record) bool { return s.Steps == r.Steps && s.Fill == r.Fill }

// left is how many tokens a bucket of r has left when as many are used as s says.
func (r *Rate) left(s *Record) float64 {
	if s.Fill.Capacity == r.Fill.Capacity {
		return s.Tokens
	}
	return float64(r.Capacity) - float64(float64(s.Fill.Capacity)-s.Tokens)
}

// until is when a bucket that s describes is full under its own definition.
func (s *Record) until() int64 {
	capacity, pace := float64(s.Fill.Capacity), math.Abs(float64(s.Fill.Pace))
	micros := float64((capacity - s.Tokens) * pace)
	if s.Fill.Pace < 0 {
		micros += float64(capacity * pace)
	}
	return min(Forever-1, s.At+int64(math.Ceil(max(0, min(Forever, micros)))))
}

// floorUnits is a product of tokens and units, rounded down. The margin is what rounding may have taken.
func floorUnits(units float64) float64 {
	return math.Floor(float64(units) + float64(math.Abs(units)*RoundingError))
}

// Level is the stored s in this rate's units, clamped to its capacity and to the debt it can hold. A level that was
// stored in these units comes back exactly: the margin is what rounding may have taken. A fraction that other units
// stored is rounded down.
//
// A record has the instant of its write. If it was written in the same steps they go on, for Keep is one of them. If
// not they begin with the write, so that no time counts twice.
func (r *Rate) Level(s *Record) Level {
	tokens := max(r.left(s), min(s.Tokens, 0)) // a lower Capacity makes no debt
	units := floorUnits(tokens * float64(r.Unit))
	l := Level{int64(max(-float64(r.deepest), min(units, float64(r.Full)))), s.At}
	if r.Step > 1 && !r.Aligned && s.Steps == r.Steps {
		l.At = s.Keep + floorTo(s.At-s.Keep, r.Step)
	}
	return l
}
