package core

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// bucket is the stored state of one limit.
type bucket struct {
	tag    uint16  // of the limit
	tokens float64 // at that instant; below 0 when tokens were promised ahead
	at     int64   // µs since 1970: the last step counted
}

// recordSize is what a bucket takes in stored state: the tag in 2 bytes, the tokens as a double in
// 8 and the time in 7, all big-endian; '>I2dI7' in script.lua.
const recordSize = 17

var errUnreadable = errors.New("is not a rate limit state")

// appendBucket appends the record of b to state.
func appendBucket(state []byte, b bucket) []byte {
	state = binary.BigEndian.AppendUint16(state, b.tag)
	state = binary.BigEndian.AppendUint64(state, math.Float64bits(b.tokens))
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(b.at))
	return append(state, at[1:]...)
}

// parseBuckets appends the records in state to buckets. State that no version of this library
// wrote is an error, whatever its bytes.
func parseBuckets[B ~string | ~[]byte](buckets []bucket, state B) ([]bucket, error) {
	if len(state) == 0 || len(state)%recordSize != 0 {
		return nil, errUnreadable
	}
	for ; len(state) > 0; state = state[recordSize:] {
		var record [1 + recordSize]byte // a free byte before the time makes it a uint64
		copy(record[:10], state)
		copy(record[11:], state[10:recordSize])
		b := bucket{
			tag:    binary.BigEndian.Uint16(record[0:]),
			tokens: math.Float64frombits(binary.BigEndian.Uint64(record[2:])),
			at:     int64(binary.BigEndian.Uint64(record[10:])),
		}
		// Written so that NaN fails it.
		if !(b.tokens >= -forever && b.tokens <= forever && b.at < forever) {
			return nil, errUnreadable
		}
		buckets = append(buckets, b)
	}
	return buckets, nil
}

// maxOthers bounds what is kept of limits that a request does not have.
const maxOthers = 8

// arrange puts stored buckets into the order of p's rates. A limit that isn't stored yet is left zero,
// so it starts full. A sole limit keeps its tokens under any name. others are the buckets of limits that
// p does not have, as when two versions of a policy are in use at once: they are kept, so that neither
// forgets what the other's limits lost. The common case, nothing changed, costs no allocation.
func (p *plan) arrange(stored []bucket) (own, others []bucket) {
	if p.matches(stored) {
		return stored, nil
	}
	own = make([]bucket, len(p.rates))
	sole := len(stored) == 1 && len(p.rates) == 1
	for j, b := range stored {
		i := p.indexOf(b.tag)
		switch {
		case i >= 0 && (own[i].tag == 0 || i == j):
			own[i] = b
		case i < 0 && sole:
			own[0] = bucket{p.rates[0].tag, b.tokens, b.at}
		case i < 0 && len(others) < maxOthers:
			others = append(others, b)
		}
	}
	return own, others
}

// matches reports whether stored are the buckets of p's rates, in their order.
func (p *plan) matches(stored []bucket) bool {
	if len(stored) != len(p.rates) {
		return false
	}
	for i := range stored {
		if stored[i].tag != p.rates[i].tag {
			return false
		}
	}
	return true
}

func (p *plan) indexOf(tag uint16) int {
	return slices.IndexFunc(p.rates, func(r rate) bool { return r.tag == tag })
}
