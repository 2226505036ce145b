package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/slot"
)

// nodes finds the node that has a key. Where one server has all keys there is one node, and looking costs nothing.
type nodes struct {
	// home is the node of all keys. Of a Cluster and a Ring it is that of keys whose server is not known.
	home *node
	// clientOf is the client's own routing. nil: one server has all keys, or the client does not tell.
	clientOf func(ctx context.Context, key string) (*redis.Client, error)
	// of makes the node of one server.
	of func(client *redis.Client) *node
	// known is set when clientOf does not have to ask the network.
	known atomic.Bool

	// stray is the node of the slots in strays: those that a server has refused. It sends what it sends to whichever servers the
	// client tries, and must not have others wait for them.
	unassigned      *node
	unassignedSlots slot.Set

	mu      sync.Mutex                              // is held to replace servers
	servers atomic.Pointer[map[*redis.Client]*node] // that keys were found on
}

// forgottenAfter is after how long without decisions the node of a server is forgotten: its keys are elsewhere.
const forgottenAfter = 10 * time.Second

// route returns the client's own routing by key, and whether it can always tell: a Cluster's client must ask the network
// first.
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

// list returns the nodes of servers. It must not be changed.
func (ns *nodes) list() map[*redis.Client]*node {
	if list := ns.servers.Load(); list != nil {
		return *list
	}
	return nil
}

// add returns the node of a server that had none. It forgets others that nobody asks.
func (ns *nodes) add(client *redis.Client) *node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n := ns.list()[client]; n != nil {
		return n
	}
	list := ns.used()
	list[client] = ns.of(client)
	ns.servers.Store(&list)
	return list[client]
}

// forget forgets the nodes that nobody asks.
func (ns *nodes) forget() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if list := ns.used(); len(list) < len(ns.list()) {
		ns.servers.Store(&list)
	}
	if ns.clientOf == nil {
		return
	}
	for _, n := range []*node{ns.home, ns.unassigned} {
		if n.breaker.Open() && n.queue.unused(forgottenAfter) {
			n.breaker.Rest()
		}
	}
}

// used returns the nodes that are in use, and retires the others. mu is held.
func (ns *nodes) used() map[*redis.Client]*node {
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

// each calls do with every node. A store without a client has none.
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

// connected notes that the client knows where keys are, once it is connected.
func (ns *nodes) connected(n *node) {
	if n == ns.home {
		ns.known.Store(true)
	}
}

// sort queues those of calls again that came before their node was known.
func (ns *nodes) sort(n *node, calls []*call) (own []*call) {
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

// wanders reports whether n is the node of strays.
func (ns *nodes) isUnassigned(n *node) bool { return n == ns.unassigned }

// refused notes that the slot of c is a stray.
func (ns *nodes) refused(c *call, requeue bool) {
	ns.unassignedSlots.Add(c.key)
	if requeue {
		c.completed = false
		c.state.Store(waiting)
		ns.unassigned.requeue(c)
	}
}

// found notes that the slot of c is no stray.
func (ns *nodes) found(c *call) { ns.unassignedSlots.Remove(c.key) }
