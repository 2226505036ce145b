package redisstore

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/outage"
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

	mu      sync.Mutex                              // held while servers is replaced
	servers atomic.Pointer[map[*redis.Client]*node] // the nodes of servers; the map is replaced, never changed
}

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
	list := make(map[*redis.Client]*node)
	maps.Copy(list, ns.list())
	maps.DeleteFunc(list, func(_ *redis.Client, n *node) bool { return n.unused(outage.ForgottenAfter) })
	list[client] = ns.newNode(client)
	ns.servers.Store(&list)
	return list[client]
}

// each calls do with every node. There is none if New was called without a
// client.
func (ns *nodes) each(do func(*node)) {
	if ns.home == nil {
		return
	}
	do(ns.home)
	for _, n := range ns.list() {
		do(n)
	}
}

// reached notes that n has a connection. A Cluster's client learns from its
// first connection which server has which hash slot.
func (ns *nodes) reached(n *node) {
	if n == ns.home && !ns.known.Load() {
		ns.known.Store(true)
	}
}
