package bucket

import (
	"encoding/binary"
	"errors"
	"math"
)

// Record is a limit's level as it is stored, with the definition that wrote it.
type Record struct {
	Rate  *Rate  // the definition that wrote it; nil: the limit was not used yet
	Units int64  // the level at the instant At, in units of Rate; below 0: a debt
	At    int64  // µs since 1970: when it was written
	Keep  int64  // µs since 1970: a step of Rate, until which the record matters
	Cut   *Cut   // what a lower Capacity has cut from the level; nil: nothing
	Holds *Holds // on the limit's tokens; nil: none
}

// RecordSize is the size of a record as bytes: the definition and the level.
// Its Cut and its Holds follow.
const RecordSize = DefinitionSize + LevelSize

// LevelSize is the size of a level as bytes, in the format '>I7I7I7': units
// plus ZeroUnits, at and keep.
const LevelSize = 21

// ZeroUnits is how a level of 0 is stored: numbers below it are debts.
const ZeroUnits = 1 << 52

// CutSize is the size of a Cut as bytes, in the format '>I4dI7': the limit's
// tag again, and the numbers.
const CutSize = 19

var (
	// ErrUnreadable is the error of state that is not a list of records.
	ErrUnreadable = errors.New("is not a rate limit state")
	// ErrLater is the error of state that begins with four zero bytes, as no
	// layout so far does: a later one would.
	ErrLater = errors.New("was written by a later version of this library")
	// ErrCrowded is the error of a key that has too many limits.
	ErrCrowded = errors.New("is in use under more than 256 limits")
)

// Tag is the tag of the record's limit; 0: the limit was not used yet.
func (s *Record) Tag() uint32 {
	if s.Rate == nil {
		return 0
	}
	return s.Rate.Tag
}

// appendTo appends s as bytes, without its holds.
func (s *Record) appendTo(state []byte) []byte {
	state = s.Rate.appendTo(state)
	state = append7(state, s.Units+ZeroUnits, s.At, s.Keep)
	if s.Cut != nil {
		state = binary.BigEndian.AppendUint32(state, s.Rate.Tag)
		state = binary.BigEndian.AppendUint64(state, math.Float64bits(s.Cut.Tokens))
		state = append7(state, s.Cut.Base)
	}
	return state
}

// AppendRecords appends records to state, as bytes.
func AppendRecords(state []byte, records []Record) []byte {
	for _, r := range records {
		state = r.Holds.appendTo(r.appendTo(state))
	}
	return state
}

// ParseRecords appends the records in state to records. It returns
// ErrUnreadable or ErrLater for bytes that this package did not write, as far
// as it notices.
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
		rate, ok := parseRate(string(state[:DefinitionSize]))
		if !ok {
			return nil, ErrUnreadable
		}
		s := Record{Rate: rate}
		if !s.parseLevel(string(state[DefinitionSize:RecordSize])) || s.At < 0 || s.Keep < 0 {
			return nil, ErrUnreadable
		}
		state = state[RecordSize:]
		if len(state) >= CutSize && binary.BigEndian.Uint32([]byte(state[:4])) == rate.Tag {
			numbers := reader{string(state[4:CutSize]), true}
			s.Cut = &Cut{math.Float64frombits(uint64(numbers.number(8))), numbers.number(7)}
			if !(s.Cut.Tokens > 0 && s.Cut.Tokens <= Forever && s.Cut.Base <= maxUnits) {
				return nil, ErrUnreadable
			}
			state = state[CutSize:]
		}
		if untagged(state) {
			if s.Holds, state, ok = parseHolds(state); !ok {
				return nil, ErrUnreadable
			}
		}
		records = append(records, s)
	}
	return records, nil
}

// parseLevel reads the units, At and Keep of s from LevelSize bytes. It reports
// whether they are in their ranges.
func (s *Record) parseLevel(text string) bool {
	var b [24]byte // each number has 7 bytes: one more above them, to read it as a uint64
	copy(b[:7], text)
	copy(b[8:15], text[7:])
	copy(b[16:23], text[14:])
	number := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[i:])) >> 8 }
	s.Units, s.At, s.Keep = number(0)-ZeroUnits, number(8), number(16)
	return s.Units >= -ZeroUnits && s.Units < ZeroUnits && s.At < Forever && s.Keep < Forever
}

// ParseLevel reads a level of r from LevelSize bytes. Unlike those of a stored
// record, its instants may be before 1970: the last step.
func (r *Rate) ParseLevel(text string) (l Level, at int64, err error) {
	var s Record
	if len(text) != LevelSize || !s.parseLevel(text) {
		return Level{}, 0, ErrUnreadable
	}
	return r.Level(&s), s.At, nil
}

// writer returns the definition that wrote s, as r sees it: r itself if r wrote
// s. When the periods of a calendar begin that r does not have is not known, so
// nothing refills by it until s.Keep, when the bucket is full.
func (r *Rate) writer(s *Record) *Rate {
	switch {
	case r.Same(s.Rate):
		return r
	case s.Rate.Calendar == nil && !s.Rate.foreign:
		return s.Rate
	}
	w := *s.Rate
	w.Calendar, w.foreign, w.maxSteps, w.maxDebt = nil, true, Forever/w.Step, MaxDebt
	if r.Calendar != nil && r.StepsHash == w.StepsHash {
		w.Calendar, w.foreign, w.maxSteps = r.Calendar, false, r.maxSteps
	}
	return &w
}

// Level is the level of s, which r wrote, bounded by the Capacity and the
// deepest debt. Its instant is the last step up to the write.
//
// Example: steps are 60 s, s was written at 130 s and has Keep 280 s. The steps
// are at …, 100, 160, 220, 280 s, and the level's instant is 100 s.
func (r *Rate) Level(s *Record) Level {
	l := Level{max(-r.maxDebt, min(s.Units, r.Full)), s.At}
	if r.Step > 1 && !r.Aligned {
		l.At = s.Keep + floorTo(s.At-s.Keep, r.Step)
	}
	return l
}

// floorUnits rounds units, a product of tokens and Unit, down, after it has
// added what the division and the multiplication may have lost.
func floorUnits(units float64) float64 {
	return math.Floor(float64(units) + float64(math.Abs(units)*RoundingError))
}
