package bucket

import (
	"encoding/binary"
	"errors"
	"math"
)

// Record is a part of what is stored of a limit: its level. A second one, of an earlier definition, may stay beside it (see
// older.go).
type Record struct {
	Tag    uint32  // the limit's
	Steps  uint16  // a hash of the steps it was written in
	Fill   Fill    // of the definition that wrote it
	Tokens float64 // at that instant; below 0: promised
	At     int64   // µs since 1970: when it was written
	Keep   int64   // until then the record matters, in steps
	Holds  *Holds  // on the limit's tokens, in the last of its records; nil: none
}

// RecordSize is what a record takes as bytes, in the form '>I4I2dI7I7ff'. Its holds follow.
const RecordSize = 36

var (
	// ErrUnreadable is the error of state that is not a list of records.
	ErrUnreadable = errors.New("is not a rate limit state")
	// ErrLater is the error of state that begins with four zero bytes, which no layout so far does.
	ErrLater = errors.New("was written by a later version of this library")
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

// ParseRecords appends the records in state to records. It returns ErrUnreadable or ErrLater for bytes that this package did
// not write; it may not notice all.
func ParseRecords[B ~string | ~[]byte](records []Record, state B) ([]Record, error) {
	switch {
	case len(state) == 0:
		return nil, ErrUnreadable
	case untagged(state):
		return nil, ErrLater
	}
	for len(state) > 0 {
		if len(state) < RecordSize {
			return nil, ErrUnreadable
		}
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
		if state = state[RecordSize:]; untagged(state) {
			var ok bool
			if s.Holds, state, ok = parseHolds(state); !ok {
				return nil, ErrUnreadable
			}
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
	capacity, pace := float64(s.Fill.Capacity), s.Fill.pace()
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
