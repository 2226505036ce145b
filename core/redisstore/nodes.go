package redisstore

import (
	"context"
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

	servers sync.Map // the nodes of servers: *node by *redis.Client
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
	if n, ok := ns.servers.Load(client); ok {
		return n.(*node)
	}
	ns.servers.Range(func(client, n any) bool { // a new server may stand in for a lost one
		if n.(*node).unused(outage.ForgottenAfter) {
			ns.servers.Delete(client)
		}
		return true
	})
	n, _ := ns.servers.LoadOrStore(client, ns.newNode(client))
	return n.(*node)
}

// each calls do with every node. There is none if New was called without a
// client.
func (ns *nodes) each(do func(*node)) {
	if ns.home == nil {
		return
	}
	do(ns.home)
	ns.servers.Range(func(_, n any) bool {
		do(n.(*node))
		return true
	})
}

// reached notes that n has a connection. A Cluster's client learns from its
// first connection which server has which hash slot.
func (ns *nodes) reached(n *node) {
	if n == ns.home && !ns.known.Load() {
		ns.known.Store(true)
	}
}
