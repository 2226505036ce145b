package redisstore

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// nodes finds the node of a key. With a single server there is only home. With a
// Cluster or a Ring, each server has a node: made for its first key, and
// forgotten when no more keys come.
type nodes struct {
	// home is the node of all keys if there is one server. With a Cluster or a
	// Ring it is the node of keys whose server is not known yet.
	home *node
	// clientOf returns the client of the server that has a key. It is nil if
	// one server has all keys, or the client can't tell.
	clientOf func(ctx context.Context, key string) (*redis.Client, error)
	// newNode makes the node of a server. With nil for the client, the store's
	// client chooses the server.
	newNode func(client *redis.Client) *node
	// known: clientOf needs no round trip.
	known atomic.Bool

	// unassigned is the node of the hash slots of a Cluster that a server has
	// refused: they are moving, or no server has them. The client may try
	// several servers for such a key, which must delay no other keys.
	unassigned          *node
	unassignedHashSlots hashSlots

	mu       sync.Mutex                              // held while servers is replaced
	servers  atomic.Pointer[map[*redis.Client]*node] // the nodes of servers; the map is replaced, never changed
	watching atomic.Bool                             // a timer will call watch
}

// forgottenAfter is the time without decisions after which a server's node is
// forgotten: its keys may be elsewhere.
const forgottenAfter = 10 * time.Second

// clientByKey returns the function by which client finds the server of a key, or
// nil. known reports whether the function works without a connection, as that of
// a Ring does: a Cluster's client must ask its servers first.
func clientByKey(client redis.UniversalClient) (clientOf func(ctx context.Context, key string) (*redis.Client, error), known bool) {
	switch c := client.(type) {
	case interface {
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}:
		return c.MasterForKey, false
	case interface {
		GetShardClientForKey(key string) (*redis.Client, error)
	}:
		return func(_ context.Context, key string) (*redis.Client, error) { return c.GetShardClientForKey(key) }, true
	}
	return nil, true
}

// several reports whether several servers share the keys: those of a Cluster or
// a Ring.
func (ns *nodes) several() bool { return ns.clientOf != nil }

// find returns the node of key.
func (ns *nodes) find(key string) *node {
	if !ns.several() || !ns.known.Load() {
		return ns.home
	}
	if ns.unassignedHashSlots.has(key) {
		return ns.unassigned
	}
	client, err := ns.clientOf(context.Background(), key)
	if err != nil {
		return ns.home
	}
	if n := ns.list()[client]; n != nil {
		return n
	}
	return ns.add(client)
}

// list returns the nodes by their servers' clients. The caller must not change
// the map.
func (ns *nodes) list() map[*redis.Client]*node {
	if list := ns.servers.Load(); list != nil {
		return *list
	}
	return nil
}

// add returns the node of a server, which it makes unless another goroutine has
// made it meanwhile. It forgets unused nodes.
func (ns *nodes) add(client *redis.Client) *node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n := ns.list()[client]; n != nil {
		return n
	}
	list := ns.inUse()
	list[client] = ns.newNode(client)
	ns.servers.Store(&list)
	return list[client]
}

// opened notes that a breaker has opened. If others have the server's keys from
// now on, no call would end the outage: so watch does.
func (ns *nodes) opened() {
	if ns.several() && !ns.watching.Swap(true) {
		time.AfterFunc(watchInterval, ns.watch)
	}
}

const watchInterval = time.Second

// watch ends outages of unused nodes. It has itself called again as long as a
// breaker is open, which ends with the use of its node.
func (ns *nodes) watch() {
	ns.forget()
	ns.watching.Store(false)
	ns.each(func(n *node) {
		if n.breaker.Open() {
			ns.opened()
		}
	})
}

// forget forgets unused nodes. home and unassigned stay, but if they are unused
// their outages end.
func (ns *nodes) forget() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if list := ns.inUse(); len(list) < len(ns.list()) {
		ns.servers.Store(&list)
	}
	for _, n := range []*node{ns.home, ns.unassigned} {
		if n.breaker.Open() && n.queue.unused(forgottenAfter) {
			n.breaker.EndOutage()
		}
	}
}

// inUse returns a new map of the nodes that are in use, and retires the
// breakers of the others. mu is held.
func (ns *nodes) inUse() map[*redis.Client]*node {
	list := make(map[*redis.Client]*node)
	for client, n := range ns.list() {
		if n.queue.unused(forgottenAfter) {
			n.breaker.Retire()
		} else {
			list[client] = n
		}
	}
	return list
}

// each calls do with every node. There is none if New was called without a
// client.
func (ns *nodes) each(do func(*node)) {
	if ns.home == nil {
		return
	}
	do(ns.home)
	if ns.several() {
		do(ns.unassigned)
	}
	for _, n := range ns.list() {
		do(n)
	}
}

// connected notes that n has a connection. A Cluster's client learns from its
// first connection which server has which hashslot.
func (ns *nodes) connected(n *node) {
	if n == ns.home && !ns.known.Load() {
		ns.known.Store(true)
	}
}

// reroute moves calls that home queued before their servers were known to the
// queues of those servers. It returns the rest.
func (ns *nodes) reroute(n *node, calls []*call) (own []*call) {
	if n != ns.home || !ns.several() || !ns.known.Load() {
		return calls
	}
	own = calls[:0]
	for _, c := range calls {
		if other := ns.find(c.key); other == n {
			own = append(own, c)
		} else {
			other.requeue(c)
		}
	}
	return own
}

// hashSlots is a set of hash slots of a Cluster. The zero value is empty. It is
// safe for concurrent use.
type hashSlots struct {
	n    atomic.Int32 // how many slots are in it
	bits [hashSlotCount / 32]atomic.Uint32
}

// hashSlotCount is how many hash slots a Cluster has.
const hashSlotCount = 16384

// has reports whether the set has the slot of key.
func (s *hashSlots) has(key string) bool {
	if s.n.Load() == 0 { // the usual case, without computing the slot
		return false
	}
	slot := hashSlot(key)
	return s.bits[slot/32].Load()&(1<<(slot%32)) != 0
}

// add adds the slot of key.
func (s *hashSlots) add(key string) {
	slot := hashSlot(key)
	if bit := uint32(1) << (slot % 32); s.bits[slot/32].Or(bit)&bit == 0 {
		s.n.Add(1)
	}
}

// remove removes the slot of key.
func (s *hashSlots) remove(key string) {
	slot := hashSlot(key)
	if bit := uint32(1) << (slot % 32); s.bits[slot/32].And(^bit)&bit != 0 {
		s.n.Add(-1)
	}
}

// hashSlot is the slot of key: the CRC16 (XMODEM) of its hash tag, or of all of
// it if it has none. See
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tag.
func hashSlot(key string) uint16 {
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
	return crc % hashSlotCount
}
