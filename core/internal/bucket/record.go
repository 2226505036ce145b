package bucket

import (
	"encoding/binary"
	"errors"
	"math"
)

// Record is what is stored of a limit.
type Record struct {
	Tag    uint32  // the limit's
	Steps  uint16  // a hash of the steps it was written in
	Fill   Fill    // of all definitions that Keep stands for
	Tokens float64 // at that instant; below 0: promised
	At     int64   // µs since 1970: when it was written
	Keep   int64   // until then the record matters, in steps
	Holds  *Holds  // on its tokens; nil: none
}

// RecordSize is what a record takes as bytes, in the form '>I4I2dI7I7ff'. Its holds follow.
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
	if len(state) == 0 {
		return nil, ErrUnreadable
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
		if state = state[RecordSize:]; hasHolds(state) {
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

// Level is the stored s in this rate's units, clamped to its capacity and to the debt it can hold. A level that was
// stored in these units comes back exactly: the margin is what rounding may have taken. A fraction that other units
// stored is rounded down.
//
// A record has the instant of its write. If it was written in the same steps they go on, for Keep is one of them. If
// not they begin with the write, so that no time counts twice.
func (r *Rate) Level(s *Record) Level {
	units := float64(s.Tokens * float64(r.Unit))
	units = math.Floor(units + float64(math.Abs(units)*RoundingError))
	l := Level{int64(max(-float64(r.deepest), min(units, float64(r.Full)))), s.At}
	if r.Step > 1 && !r.Aligned && s.Steps == r.Steps {
		l.At = s.Keep + floorTo(s.At-s.Keep, r.Step)
	}
	return l
}
