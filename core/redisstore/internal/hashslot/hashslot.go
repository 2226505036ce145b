// Package hashslot computes the slots of keys in a Redis Cluster, and has sets
// of slots.
package hashslot

import (
	"strings"
	"sync/atomic"
)

// count is how many slots a Cluster has.
const count = 16384

// Set is a set of slots of a Cluster. The zero value is empty. It is safe for
// concurrent use.
type Set struct {
	n    atomic.Int32 // how many slots are in it
	bits [count / 32]atomic.Uint32
}

// Has reports whether the set has the slot of key.
func (s *Set) Has(key string) bool {
	if s.n.Load() == 0 { // the usual case, without computing the slot
		return false
	}
	slot := Of(key)
	return s.bits[slot/32].Load()&(1<<(slot%32)) != 0
}

// Add adds the slot of key.
func (s *Set) Add(key string) {
	slot := Of(key)
	if bit := uint32(1) << (slot % 32); s.bits[slot/32].Or(bit)&bit == 0 {
		s.n.Add(1)
	}
}

// Remove removes the slot of key.
func (s *Set) Remove(key string) {
	slot := Of(key)
	if bit := uint32(1) << (slot % 32); s.bits[slot/32].And(^bit)&bit != 0 {
		s.n.Add(-1)
	}
}

// Of is the slot of key: the CRC16 (XMODEM) of its hash tag, or of all of it if
// it has none. See
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tag.
func Of(key string) uint16 {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			key = tag
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % count
}
