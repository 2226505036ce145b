package redisstore

import (
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// slots is how many a Cluster has.
const slots = 16384

// slotSet is a set of slots of a Cluster. The zero value is empty. It is safe for concurrent use.
type slotSet struct {
	n    atomic.Int32
	bits [slots / 32]atomic.Uint32
}

// has reports whether the set has the slot of key.
func (s *slotSet) has(key string) bool {
	if s.n.Load() == 0 { // almost always
		return false
	}
	slot := slotOf(key)
	return s.bits[slot/32].Load()&(1<<(slot%32)) != 0
}

// add adds the slot of key.
func (s *slotSet) add(key string) {
	slot := slotOf(key)
	if bit := uint32(1) << (slot % 32); s.bits[slot/32].Or(bit)&bit == 0 {
		s.n.Add(1)
	}
}

// remove removes the slot of key.
func (s *slotSet) remove(key string) {
	slot := slotOf(key)
	if bit := uint32(1) << (slot % 32); s.bits[slot/32].And(^bit)&bit != 0 {
		s.n.Add(-1)
	}
}

// slotOf is the slot of key: the CRC16 (XMODEM) of its hash tag, or of all of it if it has none.
// See https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tag.
func slotOf(key string) uint16 {
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
	return crc % slots
}

// ofSlot reports whether err is about one slot of a Cluster: no server serves it, or it is on its way to another. The server
// that says so is well.
func ofSlot(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") || redis.HasErrorPrefix(err, "TRYAGAIN") ||
		redis.HasErrorPrefix(err, "CLUSTERDOWN") && strings.Contains(serverText(err), "slot")
}
