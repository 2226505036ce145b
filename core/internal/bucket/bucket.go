package bucket

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

// Bucket is what is stored of one key. The zero Bucket is full.
type Bucket struct {
	Expires int64 // when the key is forgotten, in µs since 1970
	Full    int64 // when all is full at the latest; set when a decision changes the bucket, and not stored
	Records []Record
	Holds   []Hold // in the order of their ends

	levels []level // space for the next decision
}

// Hold is tokens of one limit that come back when it ends. Its ticket is that
// of the request that took them.
type Hold struct {
	End    int64
	Ticket uint64
	Tag    uint32
	Tokens int64
}

// compare orders holds as a sorted set of Redis does.
func (h Hold) compare(o Hold) int {
	return cmp.Or(cmp.Compare(h.End, o.End), cmp.Compare(h.Ticket, o.Ticket), cmp.Compare(h.Tag, o.Tag), cmp.Compare(h.Tokens, o.Tokens))
}

// is reports whether h and o are one hold, whenever they end.
func (h Hold) is(o Hold) bool {
	return h.Ticket == o.Ticket && h.Tag == o.Tag && h.Tokens == o.Tokens
}

// record returns the index of a limit's record, or -1.
func (b *Bucket) record(tag uint32) int {
	for i := range b.Records {
		if b.Records[i].Tag == tag {
			return i
		}
	}
	return -1
}

// place puts the record of a limit, or a new one, at an index in front of which
// are those of the limits before it, and returns it.
func (b *Bucket) place(rate *Rate, i int) *Record {
	if i < len(b.Records) && b.Records[i].Tag == rate.Tag { // as the last request has left it
		return &b.Records[i]
	}
	k := b.record(rate.Tag)
	if k < 0 {
		k = len(b.Records)
		b.Records = append(b.Records, Record{Tag: rate.Tag, Unit: rate.Unit, Capacity: rate.Capacity})
	}
	if k > i {
		r := b.Records[k]
		copy(b.Records[i+1:k+1], b.Records[i:k])
		b.Records[i] = r
	}
	return &b.Records[i]
}

// has reports whether a hold has not ended.
func (b *Bucket) has(h Hold) bool { return slices.ContainsFunc(b.Holds, h.is) }

// add adds a hold, or gives it another end.
func (b *Bucket) add(h Hold) {
	b.remove(h)
	at, _ := slices.BinarySearchFunc(b.Holds, h, Hold.compare)
	b.Holds = slices.Insert(b.Holds, at, h)
}

func (b *Bucket) remove(h Hold) {
	b.Holds = slices.DeleteFunc(b.Holds, h.is)
}

// release takes a hold off its limit's record.
func (b *Bucket) release(h Hold) {
	if k := b.record(h.Tag); k >= 0 {
		b.Records[k].Held = max(0, b.Records[k].Held-h.Tokens)
	}
}

const (
	headerSize = 14
	// recordSize is the size of a record as bytes.
	recordSize = 46
)

// AppendBytes appends the state of the key as Redis stores it, but for its
// holds: when it expires, in 7 bytes, as many for the script's ends_from, which
// are 0, and each record in 46.
func (b *Bucket) AppendBytes(to []byte) []byte {
	to = Append7(to, b.Expires, 0)
	for _, r := range b.Records {
		to = binary.BigEndian.AppendUint32(to, r.Tag)
		to = Append7(to, r.Unit, r.Capacity, r.Held, r.Used, r.At, r.Cut)
	}
	return to
}

// readRecord reads one of the records that AppendBytes has written.
func readRecord[T string | []byte](b T) Record {
	return Record{
		Tag: uint32(Int4(b)), Unit: Int7(b[4:]), Capacity: Int7(b[11:]),
		Held: Int7(b[18:]), Used: Int7(b[25:]), At: Int7(b[32:]), Cut: Int7(b[39:]),
	}
}

// ErrNoBucket means that stored bytes are none of a bucket.
var ErrNoBucket = errors.New("the key holds no bucket")

// Decode reads what AppendBytes has written, into b.Records as far as they have
// room.
func (b *Bucket) Decode(state []byte) error {
	b.Expires, b.Records = 0, b.Records[:0]
	if len(state) == 0 {
		return nil
	}
	if len(state)%recordSize != headerSize {
		return ErrNoBucket
	}
	b.Expires = Int7(state)
	for at := headerSize; at < len(state); at += recordSize {
		b.Records = append(b.Records, readRecord(state[at:]))
	}
	return nil
}

// Append appends the bucket as bytes: the number of its holds in 4, each hold,
// and what AppendBytes appends.
func (b *Bucket) Append(to []byte) []byte {
	to = binary.BigEndian.AppendUint32(to, uint32(len(b.Holds)))
	for _, h := range b.Holds {
		to = append(Append7(to, h.End), h.Member()...)
	}
	return b.AppendBytes(to)
}

const holdSize = 7 + memberSize

// Parse reads what Append has written. nil is a full bucket.
func (b *Bucket) Parse(state []byte) error {
	*b = Bucket{Records: b.Records[:0], levels: b.levels}
	if len(state) == 0 {
		return nil
	}
	if len(state) < 4 {
		return ErrNoBucket
	}
	n := int(binary.BigEndian.Uint32(state))
	if state = state[4:]; len(state)/holdSize < n {
		return ErrNoBucket
	}
	for range n {
		hold, err := ParseMember(state[7:holdSize])
		if err != nil {
			return err
		}
		hold.End = Int7(state)
		b.Holds, state = append(b.Holds, hold), state[holdSize:]
	}
	return b.Decode(state)
}

// Append7 appends the lower 7 bytes of each number, as state and the arguments
// of scripts have them.
func Append7(to []byte, numbers ...int64) []byte {
	for _, v := range numbers {
		to = append(to, byte(v>>48), byte(v>>40), byte(v>>32), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
	return to
}

// Int7 reads a number that Append7 has written. It is not below 0.
func Int7[T string | []byte](b T) int64 {
	_ = b[6]
	return int64(b[0])<<48 | int64(b[1])<<40 | int64(b[2])<<32 | int64(b[3])<<24 | int64(b[4])<<16 | int64(b[5])<<8 | int64(b[6])
}

// Int4 reads a number of 4 bytes.
func Int4[T string | []byte](b T) int64 {
	_ = b[3]
	return int64(b[0])<<24 | int64(b[1])<<16 | int64(b[2])<<8 | int64(b[3])
}

const memberSize = 19

// ParseMember reads what Member has written.
func ParseMember(b []byte) (Hold, error) {
	if len(b) != memberSize {
		return Hold{}, ErrNoBucket
	}
	return Hold{Ticket: binary.BigEndian.Uint64(b), Tag: binary.BigEndian.Uint32(b[8:]), Tokens: Int7(b[12:])}, nil
}

// Member is the hold as Redis stores it, but for its end: 8 bytes of its
// ticket, 4 of its tag, 7 of its tokens.
func (h Hold) Member() []byte {
	b := binary.BigEndian.AppendUint64(nil, h.Ticket)
	return Append7(binary.BigEndian.AppendUint32(b, h.Tag), h.Tokens)
}
