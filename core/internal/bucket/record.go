package bucket

import (
	"encoding/binary"
	"errors"
	"math"
)

// Record is a limit's level as it is stored. A limit has one record, or two: behind the last one the record of an earlier
// definition (see older.go).
type Record struct {
	Tag       uint32  // the limit's: a hash of its name
	StepsHash uint16  // Rate.StepsHash of the definition that wrote it
	Fill      Fill    // of the definition that wrote it
	Tokens    float64 // left at the instant At; below 0: a debt
	At        int64   // µs since 1970: when it was written
	Keep      int64   // µs since 1970: a step, until which the record matters
	Holds     *Holds  // on the limit's tokens, in the last of its records; nil: none
}

// RecordSize is the size of a record as bytes, in the format '>I4I2dI7I7ff' of Lua's struct library. Its holds follow.
const RecordSize = 36

var (
	// ErrUnreadable is the error of state that is not a list of records.
	ErrUnreadable = errors.New("is not a rate limit state")
	// ErrLater is the error of state that begins with four zero bytes, as no layout so far does: a later one would.
	ErrLater = errors.New("was written by a later version of this library")
	// ErrCrowded is the error of a key that has too many limits.
	ErrCrowded = errors.New("is in use under more than 256 limits")
)

// appendTo appends s as bytes.
func (s *Record) appendTo(state []byte) []byte {
	state = binary.BigEndian.AppendUint32(state, s.Tag)
	state = binary.BigEndian.AppendUint16(state, s.StepsHash)
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
		var b [2 + RecordSize]byte // with a zero byte before each instant, which has 7 bytes, to read it as a uint64
		copy(b[:14], state)
		copy(b[15:22], state[14:21])
		copy(b[23:], state[21:RecordSize])
		s := Record{
			Tag:       binary.BigEndian.Uint32(b[0:]),
			StepsHash: binary.BigEndian.Uint16(b[4:]),
			Tokens:    math.Float64frombits(binary.BigEndian.Uint64(b[6:])),
			At:        int64(binary.BigEndian.Uint64(b[14:])),
			Keep:      int64(binary.BigEndian.Uint64(b[22:])),
			Fill:      Fill{math.Float32frombits(binary.BigEndian.Uint32(b[30:])), math.Float32frombits(binary.BigEndian.Uint32(b[34:]))},
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

// ParseLevel reads a record that says what a level is at an instant. Unlike a stored one, it may have an instant before 1970: that of
// the last step.
func ParseLevel(text string) (Record, error) {
	if len(text) != RecordSize || text[recordAt] < 0x80 {
		var space [1]Record
		records, err := ParseRecords(space[:0], text)
		if err != nil || len(records) != 1 {
			return Record{}, ErrUnreadable
		}
		return records[0], nil
	}
	// The first of the seven bytes is that of a negative number.
	at := int64(binary.BigEndian.Uint64([]byte(text[recordAt-1:]))) << 8 >> 8
	s, err := ParseLevel(text[:recordAt] + string(make([]byte, 14)) + text[recordAt+14:])
	s.At, s.Keep = at, at
	return s, err
}

// recordAt is where the instant is in a record.
const recordAt = 14

// valid reports whether the numbers of s are in their ranges. NaN never is.
func (s *Record) valid() bool {
	return s.Tokens >= -Forever && s.Tokens <= Forever && s.At < Forever && s.Keep < Forever &&
		s.Fill.Capacity >= 0 && s.Fill.Capacity <= Forever && s.Fill.Pace >= -Forever && s.Fill.Pace <= Forever
}

// wrote reports whether r is the definition that wrote s.
func (r *Rate) wrote(s *Record) bool { return s.StepsHash == r.StepsHash && s.Fill == r.Fill }

// left is how many tokens a bucket of r has left if as many are used as s says. Example: s has 30 of 100 left, so 70 are used. A
// Capacity of 200 has 130 left, and one of 20 has -50.
func (r *Rate) left(s *Record) float64 {
	if s.Fill.Capacity == r.Fill.Capacity {
		return s.Tokens
	}
	return float64(r.Capacity) - float64(float64(s.Fill.Capacity)-s.Tokens)
}

// until is when the bucket of s is full under the definition that wrote s, at the latest.
func (s *Record) until() int64 {
	capacity, pace := float64(s.Fill.Capacity), s.Fill.pace()
	micros := float64((capacity - s.Tokens) * pace)
	if s.Fill.Pace < 0 {
		micros += float64(capacity * pace)
	}
	return min(Forever-1, s.At+int64(math.Ceil(max(0, min(Forever, micros)))))
}

// floorUnits rounds units, a product of tokens and Unit, down. First it adds what the division and the multiplication may have
// lost by rounding, so that a whole number of units stays the same.
func floorUnits(units float64) float64 {
	return math.Floor(float64(units) + float64(math.Abs(units)*RoundingError))
}

// Level is s in this rate's units, bounded by its Capacity and the deepest debt. A level that was stored in these units comes
// back exactly; one that another definition stored is rounded down to a whole unit.
//
// The level's instant is the last step up to the write. If s was written in the same steps, they go on: Keep is one of them.
// Otherwise new steps begin with the write, so that no time counts twice.
//
// Example: steps are 60 s, s was written at 130 s and has Keep 280 s. The steps are at …, 100, 160, 220, 280 s, and the
// level's instant is 100 s.
func (r *Rate) Level(s *Record) Level {
	tokens := max(r.left(s), min(s.Tokens, 0)) // a lower Capacity makes no debt
	units := floorUnits(tokens * float64(r.Unit))
	l := Level{int64(max(-float64(r.maxDebt), min(units, float64(r.Full)))), s.At}
	if r.Step > 1 && !r.Aligned && s.StepsHash == r.StepsHash {
		l.At = s.Keep + floorTo(s.At-s.Keep, r.Step)
	}
	return l
}
