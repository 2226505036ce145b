package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/slot"
)

// nodes finds the node of a key. With a single server, home is the only node and finding it costs nothing. With a Cluster or a
// Ring, each server has a node that is made with its first key and forgotten when no more keys come.
type nodes struct {
	// home is the node of all keys if there is one server. Of a Cluster and a Ring it is the node of keys whose server is not
	// known yet.
	home *node
	// clientOf asks the client which server has a key. It is nil if one server has all keys, or the client can't tell.
	clientOf func(ctx context.Context, key string) (*redis.Client, error)
	// of makes the node of one server.
	of func(client *redis.Client) *node
	// known reports whether clientOf can answer without a round trip.
	known atomic.Bool

	// unassigned is the node of unassignedSlots, which a server has refused: they are moving, or no server has them. The
	// client may try several servers for such a key, so these keys have a queue of their own and delay no others.
	unassigned      *node
	unassignedSlots slot.Set

	mu      sync.Mutex                              // held while servers is replaced
	servers atomic.Pointer[map[*redis.Client]*node] // the nodes of servers that have had keys; never changed, only replaced
}

// forgottenAfter is the time without decisions after which a server's node is forgotten: its keys are elsewhere.
const forgottenAfter = 10 * time.Second

// route returns the client's own routing by key: nil if there is one server. known reports whether it works from the start,
// as a Ring's does. A Cluster's client must ask its servers first.
func route(client redis.UniversalClient) (clientOf func(ctx context.Context, key string) (*redis.Client, error), known bool) {
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

// find returns the node of key.
func (ns *nodes) find(key string) *node {
	if ns.clientOf == nil || !ns.known.Load() {
		return ns.home
	}
	if ns.unassignedSlots.Has(key) {
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

// list returns the nodes of servers. The caller must not change the map.
func (ns *nodes) list() map[*redis.Client]*node {
	if list := ns.servers.Load(); list != nil {
		return *list
	}
	return nil
}

// add makes the node of a server, unless another goroutine has made it meanwhile. It forgets unused nodes.
func (ns *nodes) add(client *redis.Client) *node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n := ns.list()[client]; n != nil {
		return n
	}
	list := ns.inUse()
	list[client] = ns.of(client)
	ns.servers.Store(&list)
	return list[client]
}

// forget forgets unused nodes. home and unassigned stay, but their outages end: nothing would ever close their breakers.
func (ns *nodes) forget() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if list := ns.inUse(); len(list) < len(ns.list()) {
		ns.servers.Store(&list)
	}
	if ns.clientOf == nil {
		return
	}
	for _, n := range []*node{ns.home, ns.unassigned} {
		if n.breaker.Open() && n.queue.unused(forgottenAfter) {
			n.breaker.EndOutage()
		}
	}
}

// inUse returns the nodes that are in use, and retires the breakers of the others. mu is held.
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

// each calls do with every node. A store that New got no client for has none.
func (ns *nodes) each(do func(*node)) {
	if ns.home == nil {
		return
	}
	do(ns.home)
	if ns.clientOf != nil {
		do(ns.unassigned)
	}
	for _, n := range ns.list() {
		do(n)
	}
}

// connected notes that n has a connection. A Cluster's client knows from its first one where keys are.
func (ns *nodes) connected(n *node) {
	if n == ns.home {
		ns.known.Store(true)
	}
}

// reroute moves calls that home queued before their server was known to the queue of that server. It returns the rest.
func (ns *nodes) reroute(n *node, calls []*call) (own []*call) {
	if n != ns.home || !ns.known.Load() {
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

// isUnassigned reports whether n is the node of unassigned slots.
func (ns *nodes) isUnassigned(n *node) bool { return n == ns.unassigned }

// refused notes that a server has refused the slot of c. If requeue is set, c goes into the queue of unassigned slots.
func (ns *nodes) refused(c *call, requeue bool) {
	ns.unassignedSlots.Add(c.key)
	if requeue {
		c.released = false
		c.state.Store(waiting)
		ns.unassigned.requeue(c)
	}
}

// found notes that a server has the slot of c again.
func (ns *nodes) found(c *call) { ns.unassignedSlots.Remove(c.key) }
